// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const s = 'é'.repeat(1e6); for (;;) new TextEncoder().encode(s)
