// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
return {get x() { for (;;); }}
