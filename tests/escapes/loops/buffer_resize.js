// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const b = new ArrayBuffer(1e7, {maxByteLength: 1e8}); for (;;) { b.resize(1e8); b.resize(1) }
