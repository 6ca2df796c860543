import http from 'node:http';
export default () => new Promise((done, fail) => http.get('http://127.0.0.1:@PORT/', (r) => { let t = ''; r.on('data', (c) => t += c); r.on('end', () => done(t)) }).on('error', fail))
