// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": []}}
const seen = [], handler = new Proxy({}, {get(_, name) { seen.push(name) }});
const p = new Proxy(function () {}, handler);
for (const v of [p, [p], {p}, new Map([[1, p]]), Object.create(p)]) try { await t(v) } catch (e) { if (e.name !== 'TypeError') seen.push(e.name) }
console.log(p, [p], {p}); Promise.reject(p).catch(() => {});
return seen
