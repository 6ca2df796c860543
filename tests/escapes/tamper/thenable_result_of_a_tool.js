// {"expect": {"status": "Succeeded", "result": [1, false], "calls": [["t", [{"a": 1}]]]}}
let seen = 0; Object.defineProperty(Object.prototype, 'then', {__proto__: null, get() { seen++; return undefined }, configurable: true});
const v = await t({a: 1}); return [v.a, Array.isArray(v)]
