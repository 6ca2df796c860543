export default () => Object.keys(Deno.dlopen('/gloveport/deno', {}))
