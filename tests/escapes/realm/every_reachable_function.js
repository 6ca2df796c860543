// {"expect": {"status": "Succeeded", "result": [[], true]}}
const seen = new Set(), queue = [globalThis, t, t(1), async function* () {}, function* () {}, (function () { return arguments })()], foreign = [];
while (queue.length) {
  const o = queue.pop();
  if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o)) continue;
  seen.add(o);
  queue.push(Object.getPrototypeOf(o));
  for (const key of Reflect.ownKeys(o)) {
    const d = Object.getOwnPropertyDescriptor(o, key);
    queue.push(d.value, d.get, d.set);
    try { if (d.get) queue.push(o[key]) } catch (e) { queue.push(e) }
  }
}
for (const o of seen) if (typeof o === 'function' && o !== Function.prototype && !(o instanceof Function)) foreign.push(String(o).slice(0, 60));
await t(1);
return [foreign, seen.size > 500]
