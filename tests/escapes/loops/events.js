// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const e = new EventTarget(); e.addEventListener('x', () => e.dispatchEvent(new Event('x'))); for (;;) try { e.dispatchEvent(new Event('x')) } catch {}
