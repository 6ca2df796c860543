// {"timeout": 0.15, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return ('a' + '\u0315\u0300'.repeat(5e5)).normalize('NFD').length
