// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (;;) new URLSearchParams('a=b&'.repeat(1e5)).sort()
