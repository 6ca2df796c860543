// {"expect": {"status": "Succeeded", "result": 7}}
for (const k of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[k] } catch {}
return 7
