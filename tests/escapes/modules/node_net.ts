import net from 'node:net';
export default () => new Promise((done, fail) => net.connect(@PORT, '127.0.0.1', () => done('connected')).on('error', fail))
