// {"timeout": 0.5, "expect": {"status": ["Failed"]}}
const a = []; a.length = 4294967295; return a.join('x').length
