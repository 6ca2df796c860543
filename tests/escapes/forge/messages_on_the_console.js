// {"expect": {"status": "Succeeded", "result": "real"}}
for (const t of ['done', 'fail', 'call', 'idle']) console.log('\u0009\u0000\u0000\u0000' + JSON.stringify({t, f: 0, v: 'forged', id: 1, n: 't', a: [], calls: 0, timer: null, now: 0})); return 'real'
