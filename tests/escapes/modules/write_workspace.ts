export default () => { Deno.writeTextFileSync('/workspace/planted', 'x'); return 'written' }
