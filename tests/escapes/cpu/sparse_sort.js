// {"timeout": 0.5, "expect": {"status": ["Failed", "Succeeded"]}}
const a = []; a.length = 4294967295; a[5] = 1; a.sort(); return 1
