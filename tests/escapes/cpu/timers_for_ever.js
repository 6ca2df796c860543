// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
await new Promise(() => setInterval(() => {}, 1))
