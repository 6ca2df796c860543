export default async () => (await import('data:text/javascript,export { default } from "file://@SECRET_JSON" with { type: "json" }')).default
