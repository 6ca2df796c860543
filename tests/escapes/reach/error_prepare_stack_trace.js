// {"expect": {"status": "Succeeded", "result": ["undefined"]}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": "string"}}}
Error.prepareStackTrace = (e, frames) => frames; const s = new Error().stack; return Array.isArray(s) ? s.map(f => typeof f.getThis) : typeof s
