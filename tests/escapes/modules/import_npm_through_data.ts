export default async () => await import('data:text/javascript,import "npm:lodash"')
