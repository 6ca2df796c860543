// {"expect": {"status": "Failed", "error_type": "SyntaxError"}}
return await import('fs')
