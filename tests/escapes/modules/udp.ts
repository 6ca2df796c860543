import dgram from 'node:dgram';
export default () => new Promise((done, fail) => { const s = dgram.createSocket('udp4'); s.on('error', fail); s.send('x', @PORT, '127.0.0.1', (e) => e ? fail(e) : done('sent')) })
