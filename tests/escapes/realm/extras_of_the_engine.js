// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": ["SyntaxError", "undefined", "undefined"]}}
try { (0, eval)('%DebugPrint(1)') } catch (e) { return [e.name, typeof globalThis.extrasBinding, typeof chrome] }
