export default async () => await import('data:text/javascript,import "http://127.0.0.1:@PORT/x.js?leak=1"')
