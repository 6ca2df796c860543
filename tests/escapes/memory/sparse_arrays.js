// {"timeout": 20, "memory": 64, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (let i = 0;; i++) { a[i * 1000003 % 4294967295] = {i} }
