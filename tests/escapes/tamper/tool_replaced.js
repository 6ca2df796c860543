// {"expect": {"calls": [], "result": "mine"}}
globalThis.t = () => 'mine'; return await globalThis.t(1)
