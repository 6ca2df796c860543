// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return 'a'.repeat(4e6).lastIndexOf('a'.repeat(2e6) + 'b')
