export default async () => await import('file:///workspace/%2e%2e/etc/passwd')
