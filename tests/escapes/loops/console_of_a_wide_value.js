// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const a = new Array(1e5).fill({a: {b: {c: 1}}}); for (;;) console.table(a)
