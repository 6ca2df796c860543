// {"expect": {"error_type": ["SyntaxError"]}}
return await import('fs')
