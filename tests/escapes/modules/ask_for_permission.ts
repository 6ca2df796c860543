export default async () => { await Deno.permissions.request({ name: 'read' }); return Deno.readTextFileSync('@SECRET_JSON') }
