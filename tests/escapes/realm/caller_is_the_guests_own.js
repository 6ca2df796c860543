// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": [true, true]}}
function f() { return f.caller === null || Object.getPrototypeOf(f.caller) === Object.getPrototypeOf(async () => {}) }
const inside = [1].map(() => (function g() { return g.caller === null || g.caller.constructor === Function })());
return [f(), inside[0]]
