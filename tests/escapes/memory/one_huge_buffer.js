// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
return new ArrayBuffer(2 ** 31 - 1).byteLength
