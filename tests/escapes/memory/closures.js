// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
let f = () => 1; for (;;) { const g = f; f = () => g }
