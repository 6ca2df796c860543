// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": ["", "", "", "undefinedundefined"]}}
const look = (f) => { try { return f.constructor.constructor('return typeof Deno + typeof process')() } catch (e) { return e.name } };
const f = Error.prepareStackTrace;
if (typeof f !== 'function') return ['none'];
const frame = new Proxy({}, {get() { throw 1 }});
return [f({}, [frame]), f(null, null), f({}, {length: 1, 0: {getFileName: () => '<run>'}}), look(f)]
