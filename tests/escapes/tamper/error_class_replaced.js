// {"expect": {"status": "Failed", "error_type": "ValueError"}}
globalThis.Error = class { constructor() { throw 1 } }; await fail()
