// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
for (let i = 0;; i++) Symbol.for('s' + i)
