// {"timeout": 0.6, "memory": 256, "settings": ["process", "shared"], "expect": {"status": "Failed", "error_type": "RuntimeTimeout", "killed": true}}
const a = new Float64Array(2e7); for (let i = 0; i < 1000; i++) a[i] = Math.random(); for (let n = 1000; n < 2e7; n *= 2) a.copyWithin(n, 0, n); return a.sort().length
