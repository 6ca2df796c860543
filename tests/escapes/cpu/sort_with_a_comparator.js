// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
return Array.from({length: 1e5}, (_, i) => i).sort(() => { for (let i = 0; i < 1e6; i++); return 1 })
