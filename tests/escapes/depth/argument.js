// {"expect": {"status": "Failed", "error_type": "TypeError"}}
let v = 1; for (let i = 0; i < 1e5; i++) v = [v]; await t(v)
