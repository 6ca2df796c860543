// {"settings": ["inline", "process", "shared"], "expect": {"status": "Succeeded", "result": "undefined"}}
function f() { return f.caller } return String(f())
