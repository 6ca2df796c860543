// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return 'a'.repeat(5e7).replaceAll('', 'b').length
