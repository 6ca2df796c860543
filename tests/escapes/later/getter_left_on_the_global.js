// {"timeout": 2, "expect": {"status": "Succeeded", "result": 1}}
Object.defineProperty(globalThis, 'after', {get() { for (;;); }, configurable: true}); return 1
