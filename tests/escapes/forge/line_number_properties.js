// {"expect": {"status": "Failed", "error_type": "Error", "line": null}}
throw Object.assign(new Error('x'), {lineNumber: -5, columnNumber: 1e9, line: {}, col: [], stack: 7n})
