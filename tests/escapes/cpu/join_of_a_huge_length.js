// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Failed", "error_type": "MemoryLimitExceeded"}}}
const a = []; a.length = 4294967295; return a.join('x').length
