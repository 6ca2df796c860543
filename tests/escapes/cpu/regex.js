// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return /^(\w+\s?)*\1$/.test('a'.repeat(60) + '!')
