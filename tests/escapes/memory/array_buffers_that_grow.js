// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (;;) { const b = new ArrayBuffer(1, {maxByteLength: 1e6}); b.resize(1e6); a.push(b) }
