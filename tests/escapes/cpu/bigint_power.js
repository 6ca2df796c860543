// {"timeout": 5, "settings": ["inline", "process", "shared"], "expect": {"status": "Failed", "error_type": "RangeError"}}
return (7n ** (7n ** 9n)).toString().length
