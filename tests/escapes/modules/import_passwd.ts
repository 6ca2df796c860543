export default async () => Object.keys(await import('/etc/passwd'))
