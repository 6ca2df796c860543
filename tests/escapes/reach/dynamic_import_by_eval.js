// {"expect": {"status": "Failed", "error_type": "TypeError"}}
return await (0, eval)("import('os')")
