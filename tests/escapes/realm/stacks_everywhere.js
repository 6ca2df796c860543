// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": [14, []]}}
Error.stackTraceLimit = Infinity;
const stacks = [];
const note = () => stacks.push(new Error('x').stack);
note(); await null; note(); await new Promise(r => setTimeout(r, 1)); note(); await t(1); note();
queueMicrotask(note); setTimeout(note, 1); [1].forEach(note); [2, 1].sort(note); 'a'.replace(/a/, note); (0, eval)('note => note()')(note); Function('n', 'n()')(note);
await new Promise(r => setTimeout(r, 5));
try { JSON.parse('{') } catch (e) { stacks.push(e.stack) } try { await Promise.any([]) } catch (e) { stacks.push(e.stack) } try { new URL('x') } catch (e) { stacks.push(e.stack) }
return [stacks.length, stacks.filter(s => typeof s !== 'string' || /[/]|ext:|file:|node:|boot|gloveport|evalmachine/.test(s))]
