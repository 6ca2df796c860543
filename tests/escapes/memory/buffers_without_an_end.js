// {"timeout": 20, "memory": 64, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (;;) a.push(new ArrayBuffer(1 << 24))
