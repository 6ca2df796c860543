// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": "[1,{\"a\":2}]", "calls": [["t", [[1, {"a": 2}]]]]}}
for (const C of [Object, Function, Array, Promise, Map, Set, Error, String, RegExp]) for (const k of ['get', 'set', 'value', 'writable', 'configurable', 'enumerable', 'length', 'done', 'next', 'n', 'text', 'flags', 'refusal', 'place', 'resolve', 'reject', 'due', 'call', 'args'])
  try { Object.defineProperty(C.prototype, k, {__proto__: null, get() { return 'owned' }, set() {}, configurable: true}) } catch {}
const first = await t([1, {a: 2}]);
setTimeout(() => {}, 1);
return JSON.stringify(first)
