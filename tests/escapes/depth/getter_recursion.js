// {"expect": {"error_type": ["RangeError", "InternalError"]}}
const o = {get x() { return this.x }}; return o.x
