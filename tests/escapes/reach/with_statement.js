// {"expect": {"status": "Succeeded", "result": 1}}
with ({a: 1}) { return a }
