// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const s = 'abcd'.repeat(1e6); for (;;) btoa(atob(s))
