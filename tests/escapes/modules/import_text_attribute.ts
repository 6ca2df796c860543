export default async () => (await import('@SECRET_JSON', { with: { type: 'text' } })).default
