// {"expect": {"status": "Succeeded", "calls": [["t", [5]], ["t", [{"a": 1}]]]}}
Object.prototype.then = function (resolve) { resolve('owned') };
return (await t(5)) === 5 && JSON.stringify(await t({a: 1}))
