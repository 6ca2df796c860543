// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
const m = new Map(); for (let i = 0;; i++) m.set(i, {i})
