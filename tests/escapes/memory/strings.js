// {"timeout": 5, "memory": 32, "expect": {"status": "Failed", "error_type": "InternalError"}}
let s = 'x'; for (;;) s += s
