// {"expect": {"status": "Succeeded", "result": 1}}
globalThis.r = new FinalizationRegistry(() => { for (;;); }); r.register({}, 1); return 1
