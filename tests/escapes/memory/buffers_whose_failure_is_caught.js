// {"timeout": 8, "memory": 64, "settings": ["v8"], "expect": {"status": "Succeeded", "result": true}}
const a = []; for (;;) try { a.push(new ArrayBuffer(1 << 22).slice(1)) } catch { return a.length < 100 }
