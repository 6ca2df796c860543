// {"expect": {"status": "Failed", "error_type": "Error", "error": "Error: ?]0;owned?", "clean": true}}
console.log('\u001b[2J\u202e\u0007'); console.error('\u009b\r'); throw new Error('\u001b]0;owned\u0007')
