// {"settings": ["v8"], "expect": {"status": "Succeeded", "result": 0}}
const look = (f) => { try { return f.constructor.constructor('return typeof Deno + typeof process')() } catch (e) { return e.name } };

const RealError = Error, got = [], take = (e, frames) => { got.push(frames); return frames };
for (const attempt of [
  () => { Error.prepareStackTrace = take },
  () => Object.defineProperty(Error, 'prepareStackTrace', {value: take}),
  () => { delete Error.prepareStackTrace; Error.prepareStackTrace = take },
  () => { globalThis.Error = {prepareStackTrace: take} },
  () => Object.defineProperty(globalThis, 'Error', {value: {prepareStackTrace: take}}),
  () => Object.defineProperty(globalThis, 'Error', {get: () => ({prepareStackTrace: take})}),
  () => { delete globalThis.Error; globalThis.Error = class extends RealError { static prepareStackTrace = take } },
  () => { Object.prototype.prepareStackTrace = take; Function.prototype.prepareStackTrace = take },
  () => Object.setPrototypeOf(globalThis, {Error: {prepareStackTrace: take}}),
]) {
  try { attempt() } catch (e) { if (!(e instanceof RealError)) got.push(e) }
  for (const make of [() => new RealError('x').stack, () => { try { null.x } catch (e) { return e.stack } }, () => { const o = {}; RealError.captureStackTrace(o); return o.stack }]) {
    const s = make();
    if (typeof s !== 'string') got.push(s);
  }
}
class Mine extends RealError { static prepareStackTrace = take }
got.push(...[new Mine('x').stack].filter(s => typeof s !== 'string'));
return got.length
