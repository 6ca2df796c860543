// {"timeout": 5, "memory": 64, "expect": {"status": "Succeeded", "result": 1}}
console.log('x'.repeat(5e6)); return 1
