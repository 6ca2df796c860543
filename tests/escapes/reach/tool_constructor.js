// {"expect": {"status": "Succeeded", "result": ["undefined", "undefined"]}}
const F = t.constructor; const A = (async () => {}).constructor; return [F('return typeof process')(), await A('return typeof require')()]
