// {"expect": {"status": "Succeeded", "result": [1, 2, 3], "calls": [["t", [[1, 2, 3]]]]}}
for (let i = 0; i < 8; i++) Object.defineProperty(Array.prototype, i, {set() { throw 1 }, get() { return 'owned' }, configurable: true});
return await t([1, 2, 3])
