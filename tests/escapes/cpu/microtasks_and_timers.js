// {"timeout": 0.05, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
setTimeout(() => {}, 1); for (let p = Promise.resolve();;) await (p = p.then(() => 1))
