// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const x = (1n << 900000n) - 1n; for (;;) x.toString(7)
