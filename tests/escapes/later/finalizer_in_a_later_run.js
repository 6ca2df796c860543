// {"expect": {"status": "Succeeded", "result": 1}}
globalThis.kept = {}; globalThis.registry = new FinalizationRegistry(() => { for (;;); }); registry.register(kept, 1); return 1
