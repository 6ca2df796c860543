// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
return new Proxy({}, {get() { for (;;); }}).x
