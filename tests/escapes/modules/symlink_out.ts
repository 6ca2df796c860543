export default () => { Deno.symlinkSync('@SECRET_JSON', '/workspace/link'); return Deno.readTextFileSync('/workspace/link') }
