// {"expect": {"status": "Failed", "error_type": "RangeError"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": "object"}}}
return typeof JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))
