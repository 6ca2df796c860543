// {"expect": {"status": "Failed", "error_type": "RangeError"}}
const f = () => f() + 1; return f()
