// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return ('a'.repeat(60) + '!').replace(/^(a+)+$/, '')
