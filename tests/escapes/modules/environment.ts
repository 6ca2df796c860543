export default () => Deno.env.get('GLOVEPORT_TEST_SECRET') ?? process.env.GLOVEPORT_TEST_SECRET ?? (() => { throw new Error('none') })()
