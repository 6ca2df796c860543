// {"expect": {"status": "Failed", "error_type": "ValueCrossingError"}}
return new Proxy([], {get() { globalThis.touched = true }, ownKeys() { globalThis.touched = true }, getPrototypeOf() { globalThis.touched = true }})
