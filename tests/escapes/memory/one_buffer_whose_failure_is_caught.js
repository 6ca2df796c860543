// {"timeout": 20, "memory": 64, "settings": ["v8"], "expect": {"status": "Succeeded", "result": ["RangeError", true]}}
const a = []; for (let i = 0; i < 100; i++) try { a.push(new ArrayBuffer(2 ** 32)) } catch (e) { a.push(e.name) } return [...new Set(a), new ArrayBuffer(1 << 22).byteLength === 1 << 22]
