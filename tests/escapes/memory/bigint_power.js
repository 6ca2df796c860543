// {"timeout": 30, "memory": 64, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
return (7n ** (7n ** 9n)).toString().length
