export default async () => await (await fetch('http://127.0.0.1:@PORT/')).text()
