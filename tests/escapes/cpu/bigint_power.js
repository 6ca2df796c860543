// {"timeout": 0.5, "expect": {"status": ["Failed"]}}
return (7n ** (7n ** 9n)).toString().length
