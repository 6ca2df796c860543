export default () => { Deno.listen({ port: 0 }); return 'listening' }
