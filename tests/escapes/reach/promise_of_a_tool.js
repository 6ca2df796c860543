// {"expect": {"status": "Succeeded", "result": [true, "undefined"]}}
const p = t(1); const r = [p instanceof Promise, p.constructor.constructor('return typeof process')()]; await p; return r
