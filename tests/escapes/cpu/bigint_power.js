// {"timeout": 5, "expect": {"status": "Failed", "error_type": "RangeError"}, "engines": {"v8": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}}
return (7n ** (7n ** 9n)).toString().length
