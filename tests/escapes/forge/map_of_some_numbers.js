// {"expect": {"status": "Succeeded", "result": 5000}}
return Object.keys(await t(new Map(Array.from({length: 5000}, (_, i) => [i, i])))).length
