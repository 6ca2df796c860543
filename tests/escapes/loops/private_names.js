// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": ""}}}
return eval('(class{' + Array.from({length: 6e4}, (_, i) => `#p${i}=1;`).join('') + '})').name
