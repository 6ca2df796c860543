// {"memory": 32, "timeout": 2, "expect": {"status": ["Failed"]}}
for (;;) t('x'.repeat(1000))
