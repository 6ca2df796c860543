// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": []}}}
return Array.prototype.concat.call([], Object.assign({length: 2 ** 53 - 2}, {[Symbol.isConcatSpreadable]: true}))
