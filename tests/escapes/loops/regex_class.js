// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": false}}}
return new RegExp('[' + Array.from({length: 3e4}, (_, i) => '\\u' + (4096 + i * 2 & 65535).toString(16).padStart(4, '0')).join('') + ']').test('a')
