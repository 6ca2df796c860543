// {"expect": {"status": "Succeeded", "result": "mine", "calls": []}}
globalThis.t = () => 'mine'; return await globalThis.t(1)
