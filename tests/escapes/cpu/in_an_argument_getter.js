// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
await t({get x() { for (;;); }})
