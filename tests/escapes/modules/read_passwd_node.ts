import fs from 'node:fs';
export default () => fs.readFileSync('/etc/passwd', 'utf8')
