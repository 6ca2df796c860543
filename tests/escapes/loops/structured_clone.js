// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
let v = {}; for (let i = 0; i < 1e3; i++) v = {a: v}; for (;;) structuredClone(v)
