// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
return /^(\w+\s?)*\1$/.test('a'.repeat(60) + '!')
