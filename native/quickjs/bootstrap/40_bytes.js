// Looking at ArrayBuffers and views of them with captured getters: a guest can give a view own properties named `buffer` or
// `byteLength`, and can replace the getters on the prototype.
(native, primordials) => {
  'use strict';
  const p = primordials;
  const { apply, TypeError, Uint8Array } = p;
  const { classOf } = native;

  const captured = (prototype, name) => {
    const get = Object.getOwnPropertyDescriptor(prototype, name).get;
    return (self) => apply(get, self, []);
  };
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  const typedBuffer = captured(typed, 'buffer');
  const typedOffset = captured(typed, 'byteOffset');
  const typedBytes = captured(typed, 'byteLength');
  const viewBuffer = captured(DataView.prototype, 'buffer');
  const viewOffset = captured(DataView.prototype, 'byteOffset');
  const viewBytes = captured(DataView.prototype, 'byteLength');

  p.typedName = captured(typed, Symbol.toStringTag);
  p.typedLength = captured(typed, 'length');
  p.bufferOf = (view) => (classOf(view) === 'dataview' ? viewBuffer(view) : typedBuffer(view));
  p.offsetOf = (view) => (classOf(view) === 'dataview' ? viewOffset(view) : typedOffset(view));
  p.byteLengthOf = (view) => (classOf(view) === 'dataview' ? viewBytes(view) : typedBytes(view));
  p.isDetached = captured(ArrayBuffer.prototype, 'detached');
  p.isResizable = captured(ArrayBuffer.prototype, 'resizable');
  p.maxByteLength = captured(ArrayBuffer.prototype, 'maxByteLength');
  p.bufferBytes = captured(ArrayBuffer.prototype, 'byteLength');
  const set = typed.set;
  p.copyBytes = (to, from, at) => apply(set, to, [from, at]);

  // The bytes of an ArrayBuffer or a view, without a copy; null for anything else.
  p.bytesOf = (source) => {
    const kind = classOf(source);
    if (kind === 'arraybuffer') return new Uint8Array(source);
    if (kind !== 'typedarray' && kind !== 'dataview') return null;
    return new Uint8Array(p.bufferOf(source), p.offsetOf(source), p.byteLengthOf(source));
  };

  // A DOMException is an error of its own class: only its getters tell it from the others.
  const code = captured(DOMException.prototype, 'code');
  p.isDOMException = (error) => {
    try {
      return code(error) >= 0;
    } catch {
      return false;
    }
  };

  // Classes of the platform whose instances hold hidden state: each file adds a test for its own, and what to show of one (an
  // object of properties, or text) when console prints it. structuredClone refuses them.
  const brands = p.list();
  p.addBrand = (test, show) => p.push(brands, { __proto__: null, test, show });
  const brandOf = (value) => {
    for (let i = brands.n - 1; i >= 0; i--) if (brands[i].test(value)) return brands[i]; // subclasses come later
    return null;
  };
  p.isPlatform = (value) => brandOf(value) !== null;
  p.shown = (value) => {
    try {
      const brand = brandOf(value);
      return brand === null || brand.show === undefined ? null : brand.show(value);
    } catch { // an object that the guest made to look like one
      return null;
    }
  };
  p.setOwn = (object, key, value) => {
    p.defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  };

  // An options bag: undefined and null are an empty one (https://webidl.spec.whatwg.org/#es-dictionary).
  p.dictionary = (value, who) => {
    if (value === undefined || value === null) return { __proto__: null };
    if (typeof value !== 'object' && typeof value !== 'function') throw new TypeError(`${who}: the options must be an object`);
    return value;
  };

  // Methods and accessors of a class of the platform can be enumerated; the class itself says its name.
  p.platformClass = (constructor, name) => {
    const keys = Reflect.ownKeys(constructor.prototype);
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] !== 'constructor') p.defineProperty(constructor.prototype, keys[i], { __proto__: null, enumerable: true });
    }
    p.defineProperty(constructor.prototype, Symbol.toStringTag, { __proto__: null, value: name, configurable: true });
    p.global(name, constructor);
  };
}
