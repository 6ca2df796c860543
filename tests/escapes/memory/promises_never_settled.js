// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
const a = []; for (;;) a.push(new Promise(() => {}))
