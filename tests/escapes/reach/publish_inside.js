// {"expect": {"error_type": ["SyntaxError", "TypeError"]}}
return __gloveport_publish({x: [() => 1]})
