import { createRequire } from 'node:module';
export default () => createRequire('file:///workspace/x.js')('@SECRET_JSON')
