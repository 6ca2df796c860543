// {"expect": {"status": "Succeeded", "result": 1}}
let v = 1; for (let i = 0; i < 1e5; i++) v = {v}; console.log(v); return 1
