// {"expect": {"status": "Failed", "error_type": "Error"}}
const e = new Error('x'); e.name = 'WorkerCrashed'; throw e
