export default () => Deno.readTextFileSync('/proc/self/maps')
