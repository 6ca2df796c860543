// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
let o = {}; for (let i = 0; i < 60; i++) o = {a: o, b: o}; return JSON.stringify(o).length
