// {"expect": {"status": "Succeeded", "result": ["undefinedundefined"]}}
const look = (f) => { try { return f.constructor.constructor('return typeof Deno + typeof process')() } catch (e) { return e.name } };
const p = t({a: [1]}), v = await p;
return [...new Set([globalThis, p, v, v.a, t, console, console.log, setTimeout, queueMicrotask, structuredClone, crypto, performance, new URL('http://a'), new AbortController(), (() => { try { null.x } catch (e) { return e } })()].map(look))]
