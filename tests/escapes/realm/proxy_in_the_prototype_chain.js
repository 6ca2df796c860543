// {"timeout": 5, "expect": {"status": "Failed", "error_type": "Error"}}
Object.setPrototypeOf(Object.prototype.constructor === Object ? globalThis.x = {} : {}, new Proxy({}, {get() { throw 1 }, has() { throw 1 }})); const e = new Error('m'); Object.setPrototypeOf(e, new Proxy({}, {get() { for (;;); }})); throw e
