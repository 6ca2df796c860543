// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}, "engines": {"v8": {"timeout": 20, "status": "Succeeded", "result": 1}}}
globalThis.r = new FinalizationRegistry(() => { for (;;); }); r.register({}, 1); return 1
