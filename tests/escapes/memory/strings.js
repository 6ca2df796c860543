// {"timeout": 5, "memory": 32, "expect": {"status": "Failed", "error_type": "InternalError"}, "engines": {"v8": {"timeout": 20, "status": "Failed", "error_type": "MemoryLimitExceeded"}}}
let s = 'x'; for (;;) s += s
