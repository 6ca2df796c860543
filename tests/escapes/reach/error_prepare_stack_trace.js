// {"expect": {"status": ["Succeeded", "Failed"]}}
Error.prepareStackTrace = (e, frames) => frames; const s = new Error().stack; return Array.isArray(s) ? s.map(f => typeof f.getThis) : typeof s
