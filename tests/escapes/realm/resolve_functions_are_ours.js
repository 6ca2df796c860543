// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": ["undefinedundefined", "undefinedundefined", 1]}}
const look = (f) => { try { return f.constructor.constructor('return typeof Deno + typeof process')() } catch (e) { return e.name } };
let caught; Object.defineProperty(Object.prototype, 'then', {configurable: true, get() { caught ??= this; return undefined }});
const v = await t({a: 1}); delete Object.prototype.then;
return [look(v), look(caught), v.a]
