// {"timeout": 20, "memory": 32, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
for (;;) { try { const a = []; for (;;) a.push(new Array(1000).fill(1)) } catch {} }
