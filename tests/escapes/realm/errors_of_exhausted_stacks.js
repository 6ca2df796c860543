// {"timeout": 30, "settings": ["v8"], "memory": 512, "expect": {"status": "Succeeded", "result": []}}
const foreign = new Set();
const parts = [() => console.log({a: 1}), () => console.log(new Error('x')), () => structuredClone([1]), () => t({a: 1}), () => crypto.randomUUID(),
  () => new TextEncoder().encode('é'), () => new TextDecoder().decode(new Uint8Array(3)), () => btoa('a'), () => new URL('http://a/b'), () => new Error('x').stack,
  () => setTimeout(() => {}, 1), () => queueMicrotask(() => {}), () => new Date(), () => new Intl.DateTimeFormat().format(), () => Math.random(), () => t(new Proxy({}, {})),
  () => eval('1'), () => new Map([[1, 2]]), () => console.table([{a: 1}]), () => new DOMException('a'), () => Promise.reject(1).catch(() => {})];
for (const part of parts) {
  const sink = (e) => { if (!(e instanceof Error)) foreign.add(String(e && e.message)) };
  let left = 0;
  const down = () => { try { down() } catch (e) { sink(e); if (left-- > 0) try { part() } catch (e) { sink(e) } } };
  const padded = (n) => { if (n) padded(n - 1); else down() };
  for (let i = 0; i < 6; i++) { left = 60; try { padded(i) } catch (e) { sink(e) } }
}
return [...foreign]
