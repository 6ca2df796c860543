// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (;;) a.push(new Promise(() => {}))
