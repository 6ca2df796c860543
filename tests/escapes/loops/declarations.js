// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded"}}}
return eval('{' + Array.from({length: 6e4}, (_, i) => `let v${i}=1;`).join('') + '}')
