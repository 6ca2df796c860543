import inspector from 'node:inspector';
export default () => { inspector.open(0); return inspector.url() ?? (() => { throw new Error('none') })() }
