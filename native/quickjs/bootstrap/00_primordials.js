// Intrinsics captured before any guest code runs. The other files use these and nothing else, so that a guest that
// replaces Array.prototype.push or defines a getter on Object.prototype fools only itself.
//
// Rules for every bootstrap file: no method call on a value of the guest, no spread, no for-of, no array destructuring,
// no `list[list.length] = x` on a real array (index setters on Array.prototype would run): use `list()` from here.
(native, primordials) => {
  'use strict';
  const p = primordials;
  const apply = Reflect.apply;
  const method = (f) => (self, a, b, c) => apply(f, self, [a, b, c]);
  p.apply = apply;
  p.method = method;
  p.defineProperty = Object.defineProperty;
  p.create = Object.create;
  p.freeze = Object.freeze;
  p.TypeError = TypeError;
  p.RangeError = RangeError;
  p.Error = Error;
  p.Uint8Array = Uint8Array;
  p.Promise = Promise;
  p.Symbol = Symbol;
  p.isNaN = Number.isNaN;
  p.isFinite = Number.isFinite;
  p.parseInt = parseInt;
  p.parseFloat = parseFloat;
  p.floor = Math.floor;
  p.min = Math.min;
  p.max = Math.max;
  p.stringify = JSON.stringify;
  p.charCodeAt = method(String.prototype.charCodeAt);
  p.slice = method(String.prototype.slice);
  p.indexOf = method(String.prototype.indexOf);
  p.split = method(String.prototype.split);
  p.repeat = method(String.prototype.repeat);
  p.padEnd = method(String.prototype.padEnd);
  p.symbolText = method(Symbol.prototype.toString);
  p.isoText = method(Date.prototype.toISOString);
  p.hexText = ((toString) => (n) => apply(toString, n, [16]))(Number.prototype.toString);
  p.fixed = ((toFixed) => (n, digits) => apply(toFixed, n, [digits]))(Number.prototype.toFixed);
  p.SymbolIterator = Symbol.iterator;
  p.SymbolToStringTag = Symbol.toStringTag;
  // A list without a prototype: add with push(list, x), read list[i] below list.n.
  p.list = () => ({ __proto__: null, n: 0 });
  p.push = (list, x) => { list[list.n++] = x; };
  p.join = (list, separator) => {
    let text = '';
    for (let i = 0; i < list.n; i++) text += (i ? separator : '') + list[i];
    return text;
  };
  // Define a global function, class or object as a builtin is: writable, configurable, not enumerable.
  p.global = (name, value) => {
    p.defineProperty(globalThis, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  };
}
