// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
globalThis.r = new FinalizationRegistry(() => { for (;;); }); r.register({}, 1); return 1
