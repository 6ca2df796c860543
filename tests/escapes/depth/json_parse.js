// {"expect": {"status": "Failed", "error_type": "RangeError"}}
return typeof JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))
