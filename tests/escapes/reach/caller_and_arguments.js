// {"expect": {"status": ["Succeeded", "Failed"]}}
function f() { return f.caller } return String(f())
