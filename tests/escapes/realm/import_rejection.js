// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": [true, true, true, true, true, true]}}
const look = (f) => { try { return f.constructor.constructor('return typeof Deno + typeof process')() } catch (e) { return e.name } };
const found = [];
for (const name of ['fs', 'node:fs', 'data:text/javascript,export default 1', '/etc/passwd', {toString() { throw 1 }}, Symbol()]) {
  try { await (0, eval)('(n) => import(n)')(name); found.push('loaded') } catch (e) { found.push(typeof e === 'number' || (e instanceof Error && look(e) === 'undefinedundefined')) }
}
return found
