// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (;;) new Intl.NumberFormat('en').format(10n ** 10000n)
