export default async () => await (await fetch('file://@SECRET_JSON')).text()
