// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const s = 'a'.repeat(3e7), t = 'a'.repeat(3e7); for (;;) s < t
