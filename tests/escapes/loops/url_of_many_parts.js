// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (;;) new URL('http://a/' + '../'.repeat(1e5))
