// {"memory": 32, "timeout": 2, "expect": {"error_type": ["RuntimeTimeout", "MemoryLimitExceeded", "InternalError", "RangeError"]}}
for (;;) { try { const a = []; for (;;) a.push(new Array(1000).fill(1)) } catch {} }
