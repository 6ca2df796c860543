// {"expect": {"status": "Succeeded", "result": 1, "calls": [["t", [{"$": "bigint", "v": "x"}]]]}}
return await t({$: 'bigint', v: 'x'}).then(() => 1)
