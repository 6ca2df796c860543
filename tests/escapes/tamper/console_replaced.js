// {"expect": {"status": "Succeeded", "result": 1}}
console.log = () => { throw 1 }; globalThis.console = null; return 1
