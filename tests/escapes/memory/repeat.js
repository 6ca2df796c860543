// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
return 'x'.repeat(2 ** 30 - 1).length
