// {"expect": {"error_type": ["RangeError", "InternalError"]}}
const o = {toString() { return '' + this }}; return '' + o
