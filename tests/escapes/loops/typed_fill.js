// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const a = new Uint8Array(6e7); for (let i = 0; i < 1e4; i++) a.fill(i)
