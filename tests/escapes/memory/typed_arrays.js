// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))
