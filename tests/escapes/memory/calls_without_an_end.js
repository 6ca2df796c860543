// {"timeout": 20, "memory": 32, "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
for (;;) t('x'.repeat(1000))
