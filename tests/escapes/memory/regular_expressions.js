// {"timeout": 20, "memory": 64, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (let i = 0;; i++) { const r = new RegExp(`(?:${'x|'.repeat(1000)}${i})+`); r.test('y'.repeat(100)); a.push(r) }
