// {"expect": {"status": "Succeeded", "result": 5, "calls": [["t", [5]]]}}
for (const o of [Object, Array, Promise, Function, String, JSON, Reflect, Map, Error, Symbol]) for (const target of [o, o.prototype]) if (target) for (const k of Object.getOwnPropertyNames(target)) try { target[k] = () => 'owned' } catch {}
return await t(5)
