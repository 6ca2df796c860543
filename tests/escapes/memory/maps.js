// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const m = new Map(); for (let i = 0;; i++) m.set(i, {i})
