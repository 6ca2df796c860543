// {"timeout": 30, "memory": 64, "settings": ["v8"], "expect": {"status": "Failed", "error_type": "MemoryLimitExceeded"}}
const a = []; for (;;) a.push(new Intl.NumberFormat('de'), new Intl.DateTimeFormat('ja'), new Intl.Segmenter('th'))
