// {"expect": {"status": "Succeeded", "result": "undefined"}}
return this?.constructor?.constructor?.('return typeof process')() ?? Function('return typeof process')()
