// {"timeout": 0.5, "expect": {"status": ["Failed"]}}
let o = {}; for (let i = 0; i < 60; i++) o = {a: o, b: o}; return JSON.stringify(o).length
