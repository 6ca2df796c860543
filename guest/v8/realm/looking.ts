/** Looking at values without running any code of the guest: no getters, no traps, no methods. */

import {
  type Any,
  apply,
  BigInt,
  descriptorOf,
  ErrorPrototype,
  exec,
  getter,
  getTime,
  hasOwn,
  isArray,
  isObject,
  IteratorPrototype,
  method,
  protoOf,
  slice,
} from "./intrinsics.ts";
import { outside } from "./outside.ts";

/** An own data property; `undefined` when there is none or it is an accessor. */
export function ownData(object: Any, key: PropertyKey): unknown {
  if (!isObject(object) || outside.isProxy(object)) return undefined;
  const found = descriptorOf(object, key);
  return found !== undefined && hasOwn(found, "value") ? found.value : undefined;
}

/** The same along the prototype chain, as far as it is made of ordinary objects; `MISSING` when there is none. */
export const MISSING = { __proto__: null };

export function chainData(object: Any, key: PropertyKey): unknown {
  for (let i = 0; object !== null && i < 100 && !outside.isProxy(object); i++, object = protoOf(object)) {
    const found = descriptorOf(object, key);
    if (found !== undefined && hasOwn(found, "value")) return found.value;
  }
  return MISSING;
}

/** Bits of `ownKind`. */
export const DATA = 1, GETTER = 2, SETTER = 4, ENUMERABLE = 8;

export function ownKind(object: Any, key: PropertyKey): number {
  if (!isObject(object) || outside.isProxy(object)) return 0;
  const found = descriptorOf(object, key);
  if (found === undefined) return 0;
  const bits = hasOwn(found, "value") ? DATA : (found.get ? GETTER : 0) | (found.set ? SETTER : 0);
  return found.enumerable ? bits | ENUMERABLE : bits;
}

function isIterator(value: object): boolean {
  let proto = protoOf(value);
  for (let i = 0; proto !== null && i < 20 && !outside.isProxy(proto); i++, proto = protoOf(proto)) {
    if (proto === IteratorPrototype) return true;
  }
  return false;
}

let isDOMException: (value: unknown) => boolean = () => false;

export function setDOMException(test: (value: unknown) => boolean): void {
  isDOMException = test;
}

/** What a value is by its internal slots, whatever its prototype says. */
export function classOf(value: unknown): string {
  if (!isObject(value)) return "primitive";
  if (outside.isProxy(value)) return "proxy";
  if (typeof value === "function") return "function";
  if (isArray(value)) return "array";
  if (isDOMException(value)) return "error";
  const name = outside.classOf(value);
  if (name !== "object") return name;
  return isWeakRef(value) ? "weakref" : isIterator(value) ? "iterator" : "object";
}

let isWeakRef: (value: unknown) => boolean = () => false;

export function setWeakRef(test: (value: unknown) => boolean): void {
  isWeakRef = test;
}

const unboxers = [Number, String, Boolean, BigInt, Symbol].map((kind) => method(kind.prototype.valueOf));

/** The primitive in a boxed one. */
export function unboxed(value: unknown): unknown {
  for (let i = 0; i < 5; i++) {
    try {
      return unboxers[i](value);
    } catch { // one of the others
      continue;
    }
  }
  return value;
}

export function dateTime(value: unknown): number {
  return getTime(value);
}

const source = getter(RegExp.prototype, "source");
const flags: [string, (self: Any) => Any][] = [
  ["d", getter(RegExp.prototype, "hasIndices")],
  ["g", getter(RegExp.prototype, "global")],
  ["i", getter(RegExp.prototype, "ignoreCase")],
  ["m", getter(RegExp.prototype, "multiline")],
  ["s", getter(RegExp.prototype, "dotAll")],
  ["u", getter(RegExp.prototype, "unicode")],
  ["v", getter(RegExp.prototype, "unicodeSets")],
  ["y", getter(RegExp.prototype, "sticky")],
];

export function regexpText(value: unknown): string {
  let text = `/${source(value)}/`;
  for (let i = 0; i < 8; i++) if (flags[i][1](value)) text += flags[i][0];
  return text;
}

let exceptionData: (value: unknown, name: string) => string = () => "";

export function setExceptionData(read: (value: unknown, name: string) => string): void {
  exceptionData = read;
}

/** `name` of an error for a reader: own or inherited data, never a getter. */
export function errorName(error: Any): string {
  if (isDOMException(error)) return exceptionData(error, "name");
  let name = chainData(error, "name");
  if (typeof name === "string") return name;
  name = ownData(ErrorPrototype, "name");
  return typeof name === "string" ? name : "";
}

export function errorMessage(error: Any): string {
  if (isDOMException(error)) return exceptionData(error, "message");
  const message = chainData(error, "message");
  const kind = typeof message;
  return kind === "string" || kind === "number" || kind === "boolean" ? "" + message : "";
}

const nativeStack = descriptorOf(new Error(), "stack")?.get;
const OURS = /<boot\//;
const MAX_STACK = 16384;

/** `stack` as data: an own text, or what the engine itself keeps. Lines of our own code mean nothing to a reader. */
export function errorStack(error: Any): string {
  if (!isObject(error) || outside.isProxy(error)) return "";
  const found = descriptorOf(error, "stack");
  if (found === undefined) return "";
  let text: unknown = hasOwn(found, "value") ? found.value : undefined;
  if (!hasOwn(found, "value") && nativeStack !== undefined && found.get === nativeStack) {
    text = apply(nativeStack, error, []);
  }
  if (typeof text !== "string") return "";
  return exec(OURS, text) === null ? withoutFinalNewline(text) : "";
}

function withoutFinalNewline(text: string): string {
  let end = text.length < MAX_STACK ? text.length : MAX_STACK;
  while (end > 0 && text[end - 1] === "\n") end--;
  return slice(text, 0, end);
}
