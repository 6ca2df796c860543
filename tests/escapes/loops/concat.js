// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Failed", "error_type": "RangeError"}}}
const a = []; a.length = 4294967295; return a.concat([1]).length
