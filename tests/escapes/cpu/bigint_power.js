// {"timeout": 5, "expect": {"status": "Failed", "error_type": "RangeError"}}
return (7n ** (7n ** 9n)).toString().length
