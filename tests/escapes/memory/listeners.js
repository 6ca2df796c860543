// {"timeout": 5, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const e = new EventTarget(); for (let i = 0;; i++) e.addEventListener('x' + i, () => {})
