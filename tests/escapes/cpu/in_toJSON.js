// {"timeout": 0.3, "expect": {"status": "Succeeded", "result": {}}}
return {toJSON: undefined}
