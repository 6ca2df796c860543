// {"expect": {"status": ["Failed", "Succeeded"]}}
return typeof JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))
