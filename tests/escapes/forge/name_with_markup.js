// {"expect": {"status": "Failed", "error_type": "Error", "clean": true}}
const e = new Error('x'); e.name = '<script>\u001b[2J'; throw e
