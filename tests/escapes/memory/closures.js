// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
let f = () => 1; for (;;) { const g = f; f = () => g }
