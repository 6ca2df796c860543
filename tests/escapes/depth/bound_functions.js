// {"expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": 1}}}
let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(null); return f()
