// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
await new Promise(() => setInterval(() => {}, 1))
