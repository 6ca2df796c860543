export default async () => { await Deno.connect({ transport: 'unix', path: '/run/dbus/system_bus_socket' }); return 'connected' }
