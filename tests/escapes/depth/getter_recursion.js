// {"expect": {"status": "Failed", "error_type": "RangeError"}}
const o = {get x() { return this.x }}; return o.x
