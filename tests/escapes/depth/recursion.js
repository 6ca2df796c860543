// {"expect": {"error_type": ["RangeError", "InternalError"]}}
const f = () => f() + 1; return f()
