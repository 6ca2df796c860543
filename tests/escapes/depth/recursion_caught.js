// {"expect": {"status": "Succeeded", "result": "caught"}}
const f = () => f() + 1; try { f() } catch { return 'caught' }
