// {"memory": 64, "expect": {"status": ["Succeeded"]}}
console.log('x'.repeat(5e6)); return 1
