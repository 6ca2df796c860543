export default () => Deno.readTextFileSync('/gloveport/module.js').length
