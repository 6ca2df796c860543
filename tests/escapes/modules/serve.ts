export default () => { Deno.serve({ port: 0 }, () => new Response('x')); return 'listening' }
