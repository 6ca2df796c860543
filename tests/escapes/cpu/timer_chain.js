// {"timeout": 0.3, "expect": {"error_type": ["RuntimeTimeout"]}}
const again = () => setTimeout(again, 0); again(); await new Promise(() => {})
