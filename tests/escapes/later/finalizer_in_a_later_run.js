// {"expect": {"status": "Succeeded", "result": 1}}
globalThis.kept = {}; const r = new FinalizationRegistry(() => { for (;;); }); r.register(globalThis.kept, 1); globalThis.r = r; return 1
