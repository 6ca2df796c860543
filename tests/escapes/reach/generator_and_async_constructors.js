// {"expect": {"status": "Succeeded", "result": ["undefined", "undefined", "undefined"]}}
const G = (function* () {}).constructor, A = (async () => {}).constructor, AG = (async function* () {}).constructor;
return [G('yield typeof process')().next().value, await A('return typeof process')(), (await AG('yield typeof process')().next()).value]
