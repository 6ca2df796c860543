// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return 'a'.repeat(1e6).lastIndexOf('b' + 'a'.repeat(5e5))
