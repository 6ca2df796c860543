/**
 * The realm's own builtins, taken before any guest code runs. All code in this folder uses these and nothing else, so that a
 * guest that replaces `Array.prototype.push`, or puts a getter on `Object.prototype`, fools only itself.
 *
 * Rules for every file here: no method call on a value of the guest, no spread, no for-of, no array destructuring, no
 * `array[array.length] = x` on a real array (setters on `Array.prototype` would run): lists are objects without a prototype.
 */

// deno-lint-ignore-file no-explicit-any
export type Any = any;

const { Error, TypeError, RangeError, Date, Map, Set, Promise, Proxy, Symbol, Uint8Array, BigInt } = globalThis;
export { BigInt, Date, Error, Map, Promise, Proxy, RangeError, Set, Symbol, TypeError, Uint8Array };

export const apply = Reflect.apply;
export const construct = Reflect.construct;
export const ownKeys = Reflect.ownKeys;
export const keys = Object.keys;
export const protoOf = Object.getPrototypeOf;
export const setProto = Object.setPrototypeOf;
export const defineProperty = Object.defineProperty;
export const descriptorOf = Object.getOwnPropertyDescriptor;
export const isArray = Array.isArray;
export const isInteger = Number.isInteger;
export const floor = Math.floor;
export const imul = Math.imul;
export const stringify = JSON.stringify;
export const parse = JSON.parse;
export const ObjectPrototype = Object.prototype;
export const IteratorPrototype = protoOf(protoOf([][Symbol.iterator]()));
export const AsyncFunction: Any = (async () => {}).constructor;
export const ErrorPrototype = Error.prototype;

/** `f` as a function of its `this`. */
export function method(f: Any): (self: Any, a?: Any, b?: Any) => Any {
  return (self, a, b) => apply(f, self, [a, b]);
}

/** The getter of a property as a function of its `this`. */
export function getter(prototype: object, name: PropertyKey): (self: Any) => Any {
  const get = descriptorOf(prototype, name)!.get!;
  return (self) => apply(get, self, []);
}

/** The getter that a literal was written with: a function that is named as builtin getters are. */
export const getterIn = (literal: object, name: PropertyKey): Any => descriptorOf(literal, name)!.get;

const has = ObjectPrototype.hasOwnProperty;
export const hasOwn = (object: Any, key: PropertyKey): boolean => apply(has, object, [key]) as boolean;
export const isWellFormed = method(String.prototype.isWellFormed);
export const charCodeAt = method(String.prototype.charCodeAt);
export const slice = method(String.prototype.slice);
export const indexOf = method(String.prototype.indexOf);
export const startsWith = method(String.prototype.startsWith);
export const functionText = method(Function.prototype.toString);
export const exec = method(RegExp.prototype.exec);
export const getTime = method(Date.prototype.getTime);
export const mapGet = method(Map.prototype.get);
export const mapSet = method(Map.prototype.set);
export const mapDelete = method(Map.prototype.delete);
export const mapSize = getter(Map.prototype, "size");
export const setSize = getter(Set.prototype, "size");
export const setAdd = method(Set.prototype.add);
const mapEntries = method(Map.prototype.entries), setValues = method(Set.prototype.values);
const mapNext = method(protoOf(new Map().entries()).next), setNext = method(protoOf(new Set().values()).next);
const TypedArrayPrototype = protoOf(Uint8Array.prototype);
export const typedLength = getter(TypedArrayPrototype, "length");
export const typedName = getter(TypedArrayPrototype, Symbol.toStringTag);
const typedBuffer = getter(TypedArrayPrototype, "buffer");
const typedOffset = getter(TypedArrayPrototype, "byteOffset"), typedBytes = getter(TypedArrayPrototype, "byteLength");
const viewBuffer = getter(DataView.prototype, "buffer");
const viewOffset = getter(DataView.prototype, "byteOffset"), viewBytes = getter(DataView.prototype, "byteLength");
const bufferBytes = getter(ArrayBuffer.prototype, "byteLength");
export const copyBytes = method(TypedArrayPrototype.set);
export const toBase64 = method(Uint8Array.prototype.toBase64);
export const fromBase64 = Uint8Array.fromBase64;

/** A list without a prototype: read `list[i]` below `list.n`. */
export interface List<T> {
  n: number;
  [index: number]: T;
}

export function list<T>(): List<T> {
  return { __proto__: null, n: 0 } as unknown as List<T>;
}

export function push<T>(to: List<T>, item: T): void {
  to[to.n++] = item;
}

export function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

/** Own, writable, configurable, not enumerable: as builtins are. */
export function hidden(object: object, name: PropertyKey, value: unknown): void {
  defineProperty(
    object,
    name,
    { __proto__: null, value, writable: true, configurable: true, enumerable: false } as Any,
  );
}

/** A function that the host's realm owns is called through this only: its errors belong to that realm and stop here. */
export function guarded<A extends unknown[], R>(f: (...args: A) => R, otherwise: string): (...args: A) => R {
  return ((a: Any, b: Any, c: Any) => {
    try {
      return (f as Any)(a, b, c);
    } catch { // the thrown thing is not looked at, let alone passed on
      throw new RangeError(otherwise);
    }
  }) as Any;
}

/** Members of a Map (key, value, key, value...) or of a Set, at most `limit` of them. */
export function membersOf(value: Any, isMap: boolean, limit: number): List<unknown> {
  const found = list<unknown>();
  const iterator = isMap ? mapEntries(value) : setValues(value);
  const next = isMap ? mapNext : setNext;
  for (let count = 0; count < limit; count++) {
    const step = next(iterator);
    if (step.done) break;
    if (isMap) {
      push(found, step.value[0]);
      push(found, step.value[1]);
    } else {
      push(found, step.value);
    }
  }
  return found;
}

/** A fresh view of the bytes behind a buffer or a view; an empty one when it is detached. */
export function bytesOf(value: Any, kind: string): Uint8Array {
  try {
    if (kind === "arraybuffer") return new Uint8Array(value, 0, bufferBytes(value));
    if (kind === "dataview") return new Uint8Array(viewBuffer(value), viewOffset(value), viewBytes(value));
    return new Uint8Array(typedBuffer(value), typedOffset(value), typedBytes(value));
  } catch {
    return new Uint8Array(0);
  }
}
