// {"expect": {"status": "Failed", "error_type": "Error"}}
class RuntimeTimeout extends Error {}; RuntimeTimeout.prototype.name = 'RuntimeTimeout'; throw new RuntimeTimeout('x')
