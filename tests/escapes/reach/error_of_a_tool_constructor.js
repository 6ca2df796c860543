// {"expect": {"status": "Succeeded", "result": "undefined"}}
try { await fail() } catch (e) { return e.constructor.constructor('return typeof process')() }
