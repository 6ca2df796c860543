// {"timeout": 2, "expect": {"status": "Failed", "error_type": "ValueCrossingError"}}
const a = []; for (let i = 0; i < 30; i++) a.push(a.slice()); return a
