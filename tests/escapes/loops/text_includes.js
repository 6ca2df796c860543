// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": false}}}
return 'a'.repeat(4e6).includes('a'.repeat(2e6) + 'b')
