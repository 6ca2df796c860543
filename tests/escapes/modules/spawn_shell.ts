import { execSync } from 'node:child_process';
export default () => String(execSync('cat @SECRET_JSON'))
