// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const b = new Uint8Array(1e6).fill(255); for (;;) new TextDecoder().decode(b)
