// {"expect": {"status": "Failed", "error_type": "Error", "line": null}}
const e = new Error('x'); e.stack = '    at <run>:999999999999999999:1\n'; throw e
