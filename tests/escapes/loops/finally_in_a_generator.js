// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
function* g() { try { for (;;) yield } finally { for (;;); } } for (const x of g()) break
