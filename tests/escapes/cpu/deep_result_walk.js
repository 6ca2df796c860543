// {"timeout": 1, "expect": {"error_type": ["ValueCrossingError", "RuntimeTimeout"]}}
const a = []; for (let i = 0; i < 30; i++) a.push(a.slice()); return a
