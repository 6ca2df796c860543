// {"timeout": 5, "expect": {"status": "Failed", "error_type": "RangeError"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": 2001192}}}
let x = 3n; for (let i = 0; i < 22; i++) x *= x; return x.toString().length
