// {"timeout": 20, "memory": 64, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
return JSON.parse('[' + '1,'.repeat(2e7) + '1]').length
