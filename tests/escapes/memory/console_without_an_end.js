// {"timeout": 0.2, "memory": 32, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (let i = 0;; i++) console.log('line', i)
