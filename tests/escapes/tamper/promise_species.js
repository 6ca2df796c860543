// {"expect": {"status": "Failed", "error_type": "TypeError", "calls": [["t", [1]]]}}
Object.defineProperty(Promise, Symbol.species, {value: class { constructor(f) { f(() => {}, () => {}) } }}); Promise.prototype.constructor = null;
return await t(1)
