// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
return `${{[Symbol.toPrimitive]() { for (;;); }}}`
