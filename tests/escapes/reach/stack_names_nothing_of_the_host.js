// {"expect": {"status": "Succeeded", "result": false}}
try { null.x } catch (e) { return /gloveport|boot|\/|python/.test(e.stack) }
