// {"timeout": 8, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
return String.raw({raw: {length: 2 ** 53 - 1}}).length
