// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
for (;;) await null
