// {"expect": {"status": "Succeeded", "result": 1}}
t(1).then(() => { globalThis.x = 1 }); return 1
