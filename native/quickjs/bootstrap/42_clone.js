// structuredClone: https://html.spec.whatwg.org/multipage/structured-data.html#dom-structuredclone
// Looks at the classes of values through the engine (no trap runs), reads properties as the standard says (getters run).
(native, primordials) => {
  'use strict';
  const { apply, defineProperty, list, push, Uint8Array, TypeError, dictionary } = primordials;
  const { typedName, typedLength, bufferOf, offsetOf, byteLengthOf, isDetached, isResizable, maxByteLength, bufferBytes } = primordials;
  const { classOf, ownKeys, ownKind, ownData, entriesOf, unbox, regexpText, errorName, errorMessage, errorStack } = native;
  const DATA = 1, ENUMERABLE = 8;

  const { Map, Set, Date, RegExp, Array, Object, DataView, ArrayBuffer, DOMException } = globalThis;
  const { has, get, set } = Map.prototype;
  const addMember = Set.prototype.add;
  const transfer = ArrayBuffer.prototype.transfer;
  const lastIndexOf = primordials.method(String.prototype.lastIndexOf);
  const errors = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
  const typedArrays = { __proto__: null };
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (/^(Big)?(Ui|I)nt\d+(Clamped)?Array$|^Float\d+Array$/.test(name)) typedArrays[name] = globalThis[name];
  }

  const refuse = (value) => {
    const text = typeof value === 'symbol' ? primordials.symbolText(value) : primordials.inspect(value, 0);
    throw new DOMException(`${text} cannot be cloned`, 'DataCloneError');
  };
  const property = { __proto__: null, value: undefined, writable: true, enumerable: true, configurable: true };
  const define = (target, key, value) => {
    property.value = value;
    defineProperty(target, key, property);
    property.value = undefined;
  };
  const hidden = (target, key, value) => {
    defineProperty(target, key, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  };

  // `moved`: pairs of a buffer to transfer and the buffer that takes its place.
  const cloner = (moved) => {
    const done = new Map();
    const remember = (value, copy) => (apply(set, done, [value, copy]), copy);

    const properties = (value, copy) => {
      const keys = ownKeys(value);
      for (let i = 0; i < keys.length; i++) {
        const key = ownData(keys, i);
        if (typeof key === 'string' && ownKind(value, key) & ENUMERABLE) define(copy, key, clone(value[key]));
      }
      return copy;
    };

    const buffer = (value) => {
      if (isDetached(value)) refuse(value);
      const n = bufferBytes(value);
      const copy = isResizable(value) ? new ArrayBuffer(n, { __proto__: null, maxByteLength: maxByteLength(value) }) : new ArrayBuffer(n);
      for (let i = 0; i < moved.n; i++) {
        if (moved[i].from === value) {
          moved[i].to = copy; // filled at the end: a failure before must leave the original as it is
          return remember(value, copy);
        }
      }
      primordials.copyBytes(new Uint8Array(copy), new Uint8Array(value), 0);
      return remember(value, copy);
    };

    const view = (value, kind) => {
      const bytes = clone(bufferOf(value)), at = offsetOf(value);
      if (kind === 'dataview') return remember(value, new DataView(bytes, at, byteLengthOf(value)));
      return remember(value, new typedArrays[typedName(value)](bytes, at, typedLength(value)));
    };

    const regexp = (value) => {
      const text = regexpText(value), end = lastIndexOf(text, '/');
      return remember(value, new RegExp(primordials.slice(text, 1, end), primordials.slice(text, end + 1)));
    };

    const error = (value) => {
      const name = errorName(value), message = errorMessage(value), stack = errorStack(value);
      const exception = primordials.isDOMException(value);
      const copy = remember(value, exception ? new DOMException(message, name) : new (errors[name] ?? errors.Error)());
      if (!exception && ownKind(value, 'message') & DATA) hidden(copy, 'message', message);
      hidden(copy, 'stack', stack);
      if (ownKind(value, 'cause') & DATA) hidden(copy, 'cause', clone(ownData(value, 'cause')));
      return copy;
    };

    const members = (value, isMap) => {
      const copy = remember(value, isMap ? new Map() : new Set());
      const flat = entriesOf(value, 0xFFFFFFFF);
      for (let i = 0; i < flat.length; i++) {
        const member = clone(ownData(flat, i));
        if (isMap) apply(set, copy, [member, clone(ownData(flat, ++i))]);
        else apply(addMember, copy, [member]);
      }
      return copy;
    };

    const byKind = (value, kind) => {
      switch (kind) {
        case 'array': {
          const copy = remember(value, []);
          defineProperty(copy, 'length', { __proto__: null, value: ownData(value, 'length') });
          return properties(value, copy);
        }
        case 'object':
        case 'arguments':
          if (primordials.isPlatform(value)) refuse(value);
          return properties(value, remember(value, {}));
        case 'boxed': {
          const inner = unbox(value);
          if (typeof inner === 'symbol') refuse(value);
          return remember(value, Object(inner));
        }
        case 'date': return remember(value, new Date(unbox(value)));
        case 'regexp': return regexp(value);
        case 'map': return members(value, true);
        case 'set': return members(value, false);
        case 'error': return error(value);
        case 'arraybuffer': return buffer(value);
        case 'typedarray':
        case 'dataview': return view(value, kind);
        default: return refuse(value);
      }
    };

    const clone = (value) => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null) {
        return typeof value === 'symbol' ? refuse(value) : value;
      }
      return apply(has, done, [value]) ? apply(get, done, [value]) : byKind(value, classOf(value));
    };
    return clone;
  };

  const transferList = (options) => {
    const given = dictionary(options, 'structuredClone').transfer, moved = list();
    if (given === undefined) return moved;
    for (const from of given) { // the guest's own iterator, as the standard says
      if (classOf(from) !== 'arraybuffer' || isDetached(from)) refuse(from);
      for (let i = 0; i < moved.n; i++) {
        if (moved[i].from === from) throw new DOMException('structuredClone: a buffer is transferred twice', 'DataCloneError');
      }
      push(moved, { __proto__: null, from, to: null });
    }
    return moved;
  };

  primordials.global('structuredClone', { structuredClone(value, options = undefined) {
    if (arguments.length === 0) throw new TypeError('structuredClone: 1 argument is needed');
    const moved = transferList(options), copy = cloner(moved)(value);
    for (let i = 0; i < moved.n; i++) {
      const { from, to } = moved[i];
      if (to !== null && !isDetached(from)) primordials.copyBytes(new Uint8Array(to), new Uint8Array(from), 0);
    }
    for (let i = 0; i < moved.n; i++) apply(transfer, moved[i].from, [0]);
    return copy;
  } }.structuredClone);
}
