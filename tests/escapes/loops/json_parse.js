// {"timeout": 0.15, "memory": 160, "settings": ["inline", "process", "shared"], "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return JSON.parse('[' + '1,'.repeat(2e7) + '1]').length
