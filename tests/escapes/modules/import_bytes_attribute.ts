export default async () => new TextDecoder().decode((await import('@SECRET_JSON', { with: { type: 'bytes' } })).default)
