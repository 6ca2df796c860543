// {"expect": {"status": "Failed", "error_type": "RangeError"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": 200001}}}
let v = 1; for (let i = 0; i < 1e5; i++) v = [v]; return JSON.stringify(v).length
