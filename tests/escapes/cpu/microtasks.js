// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const f = () => Promise.resolve().then(f); await f()
