// {"timeout": 0.3, "memory": 32, "settings": ["inline", "process", "shared"], "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (;;) { try { const a = []; for (;;) a.push(new Array(1000).fill(1)) } catch {} }
