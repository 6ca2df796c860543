// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
const a = []; for (;;) a.push(new Array(1000).fill(1))
