// {"expect": {"status": "Succeeded", "result": 1}}
setTimeout(() => { globalThis.late = 1; for (;;); }, 10); return 1
