// {"expect": {"status": "Succeeded", "result": ["TypeError", "TypeError", "TypeError"], "calls": []}}
const bad = []; for (const v of [new Date(NaN), 10n ** 5000n, new Date(8.64e15)]) { try { await t(v) } catch (e) { bad.push(e.name) } } return bad
