// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (let i = 0;; i++) a.push(Symbol.for('s' + i))
