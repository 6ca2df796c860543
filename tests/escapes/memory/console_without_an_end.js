// {"memory": 32, "timeout": 0.5, "expect": {"error_type": ["RuntimeTimeout"]}}
for (let i = 0;; i++) console.log('line', i)
