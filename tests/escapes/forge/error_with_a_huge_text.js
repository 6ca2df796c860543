// {"expect": {"status": "Failed", "error_type": "Error"}}
throw new Error('x'.repeat(2e6))
