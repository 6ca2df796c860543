// {"expect": {"status": "Failed"}}
return await (0, eval)("import('os')")
