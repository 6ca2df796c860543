// {"expect": {"status": "Failed", "error_type": "SyntaxError"}}
return new RegExp('('.repeat(5e4) + ')'.repeat(5e4)).test('')
