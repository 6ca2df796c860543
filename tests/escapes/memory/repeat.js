// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
return 'x'.repeat(2 ** 30 - 1).length
