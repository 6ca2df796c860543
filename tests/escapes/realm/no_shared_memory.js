// {"expect": {"status": "Succeeded", "result": []}}
const found = ['SharedArrayBuffer', 'WebAssembly', 'Worker', 'MessageChannel', 'BroadcastChannel', 'gc', 'd8', 'Deno', 'process', 'require', 'localStorage', 'caches', 'navigator', 'fetch'].filter(n => n in globalThis);
try { Atomics.wait(new Int32Array(4), 0, 0, 50); found.push('waited') } catch {}
return found
