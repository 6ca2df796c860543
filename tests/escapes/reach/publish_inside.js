// {"expect": {"status": "Failed", "error_type": "SyntaxError"}}
return __gloveport_publish({x: [() => 1]})
