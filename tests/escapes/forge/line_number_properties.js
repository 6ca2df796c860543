// {"expect": {"status": "Failed", "error_type": "Error", "line": 1}, "engines": {"v8": {"timeout": 20, "status": "Failed", "error_type": "Error", "line": null}}}
const e = Object.assign(new Error('x'), {lineNumber: -5, columnNumber: 1e9, line: {}, col: []}); Object.defineProperty(e, 'stack', {value: 7n}); throw e
