// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
const t = {then(r) { r(t) }}; await t
