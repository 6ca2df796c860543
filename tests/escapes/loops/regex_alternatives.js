// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return new RegExp('(' + 'a|'.repeat(1e6) + ')').source.length
