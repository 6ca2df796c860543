// {"timeout": 8, "settings": ["inline", "process", "shared"], "expect": {"status": "Succeeded", "result": 1000001}}
return ('a' + '\u0315\u0300'.repeat(5e5)).normalize('NFD').length
