export default async () => await import('http://127.0.0.1:@PORT/x.js')
