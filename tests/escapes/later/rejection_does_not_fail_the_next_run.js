// {"expect": {"status": "Succeeded", "result": 1}}
Promise.reject(new Error('later')); return 1
