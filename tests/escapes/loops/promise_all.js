// {"timeout": 0.15, "memory": 64, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (;;) Promise.all(new Array(1e5).fill(1))
