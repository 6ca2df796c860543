// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": 2000002}}}
return new RegExp('(' + 'a|'.repeat(1e6) + ')').source.length
