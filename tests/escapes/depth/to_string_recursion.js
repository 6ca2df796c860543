// {"expect": {"status": "Failed", "error_type": "RangeError"}}
const o = {toString() { return '' + this }}; return '' + o
