// {"expect": {"status": "Succeeded", "result": "set"}}
let v = {$: 'object', v: {$: 'map', v: [[1]]}}; for (let i = 0; i < 90; i++) v = {$: 'set', v}; return (await t(v)).v.v.$
