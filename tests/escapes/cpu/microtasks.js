// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
const f = () => Promise.resolve().then(f); await f()
