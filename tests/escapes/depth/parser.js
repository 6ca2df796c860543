// {"expect": {"status": "Failed", "error_type": "RangeError"}}
return (0, eval)('('.repeat(1e5) + '1' + ')'.repeat(1e5))
