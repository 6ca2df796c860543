// {"memory": 32, "expect": {"error_type": ["MemoryLimitExceeded", "RangeError", "InternalError"]}}
return new ArrayBuffer(2 ** 31 - 1).byteLength
