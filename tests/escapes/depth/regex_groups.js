// {"expect": {"status": ["Failed", "Succeeded"]}}
return new RegExp('('.repeat(5e4) + ')'.repeat(5e4)).test('')
