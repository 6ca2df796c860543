// {"expect": {"status": ["Failed", "Succeeded"]}}
return (0, eval)('('.repeat(1e5) + '1' + ')'.repeat(1e5))
