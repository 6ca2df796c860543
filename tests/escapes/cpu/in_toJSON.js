// {"timeout": 2, "expect": {"status": "Succeeded", "result": {}}}
return {toJSON: undefined}
