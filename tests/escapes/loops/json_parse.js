// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return JSON.parse('[' + '1,'.repeat(2e7) + '1]').length
