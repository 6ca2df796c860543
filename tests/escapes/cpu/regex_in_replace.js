// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
return ('a'.repeat(60) + '!').replace(/^(a+)+$/, '')
