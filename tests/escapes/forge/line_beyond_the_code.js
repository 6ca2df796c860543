// {"expect": {"status": "Failed", "error_type": "Error", "line": null}}
const e = new Error('x'); e.stack = '    at <run>:4000:1\n    at <eval>:5000:2\n'; throw e
