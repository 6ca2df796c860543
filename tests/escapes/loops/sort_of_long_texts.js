// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const long = 'a'.repeat(1e6), a = []; for (let i = 0; i < 60; i++) a.push(long + String.fromCharCode(65 + i)); for (;;) a.sort()
