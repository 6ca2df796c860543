// {"expect": {"status": "Failed", "error_type": "RangeError"}}
let v = 1; for (let i = 0; i < 1e5; i++) v = [v]; return JSON.stringify(v).length
