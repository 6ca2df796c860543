// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const a = new Set(Array.from({length: 1e5}, (_, i) => i)); for (;;) a.union(a)
