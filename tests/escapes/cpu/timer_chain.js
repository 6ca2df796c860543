// {"timeout": 0.15, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
const again = () => setTimeout(again, 0); again(); await new Promise(() => {})
