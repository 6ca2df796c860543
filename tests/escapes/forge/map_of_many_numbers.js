// {"expect": {"status": "Failed", "error_type": "TypeError", "calls": []}}
await t(new Map(Array.from({length: 40000}, (_, i) => [i, i])))
