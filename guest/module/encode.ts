/** Values to JSON, strictly: what JSON cannot say is refused, with the place where it is. */

import {
  byteLength,
  charAt,
  getPrototypeOf,
  indexOf,
  isArray,
  isFinite,
  keys,
  objectPrototype,
  rawJSON,
  setPrototypeOf,
  slice,
  stringify,
  values,
} from "./originals.ts";

const MAX_DEPTH = 200;
const EXACT = 2 ** 53;
const COUNTED = 16;
const MOST_BEYOND = 4 << 20;
const MAX_NODES = 1_000_000;
const PART = 64 << 10;
const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const test = IDENTIFIER.test.bind(IDENTIFIER);

export class NotJson extends Error {}
export class TooLarge extends Error {
  constructor(limit: number, size: number | null) {
    const found = size === null ? "far more" : `${size} bytes`;
    super(`the result has ${found} as JSON, and at most ${limit} bytes are allowed: return less, or a summary`);
  }
}

// deno-lint-ignore no-explicit-any
type Any = any;
type Step = string | number;

const ADVICE: [Any, string, string][] = [
  [Date, "a Date", "call toISOString()"],
  [Map, "a Map", "use Object.fromEntries(map)"],
  [Set, "a Set", "use [...set]"],
  [RegExp, "a RegExp", "return its source"],
  [Promise, "a Promise", "await it"],
  [Error, "an Error", "return its message"],
  [ArrayBuffer, "an ArrayBuffer", "return text, or an array of numbers"],
  [Number, "a Number object", "return the number"],
  [String, "a String object", "return the text"],
  [Boolean, "a Boolean object", "return the boolean"],
];

const { isView } = ArrayBuffer;
const { isInteger: integer } = Number;
const { getOwnPropertyDescriptor } = Reflect;

function has(value: object, key: string): boolean {
  return getOwnPropertyDescriptor(value, key) !== undefined;
}

function instance(value: Any, base: Any): boolean {
  for (let at = getPrototypeOf(value), left = 100; at && left; at = getPrototypeOf(at), left--) {
    if (at === base.prototype) return true;
  }
  return false;
}

/** What an object that is neither plain nor an array is, and what to do about it. */
function otherObject(value: Any): string {
  if (isView(value)) return "a typed array; return text, or an array of numbers: [...bytes]";
  for (const [base, name, advice] of ADVICE) if (instance(value, base)) return `${name}; ${advice}`;
  const name = getPrototypeOf(value)?.constructor?.name;
  return `an instance of ${typeof name === "string" && name.length < 100 ? name : "a class"}; return a plain object`;
}

/** Checks a value as a whole and then has V8 write it, which is several times as fast as writing it here piece by piece. */
export class Encoder {
  /** Bytes that the JSON has at least; a character of UTF-16 is one or more. */
  #least = 0;
  /** Bytes of the parts that went before. */
  #sent = 0;
  #nodes = 0;
  #exact = true;
  #path: Step[] = unpolluted();
  #open: object[] = unpolluted();

  constructor(private readonly limit: number) {}

  /**
   * The JSON of a value. Throws `NotJson`, `TooLarge`, and what the value's own getters throw.
   *
   * With `send`, a long array is given to it in parts as they are checked, each the JSON of an array: the host reads one while the
   * next is written. What is returned is the last part then.
   */
  encode(value: Any, send?: (part: string) => void): string {
    const parted = send !== undefined && isArray(value);
    const json = parted ? this.#parts(value, send) : (this.#check(value, 0), this.#write(value === undefined ? null : value));
    const size = this.#sent + byteLength(json);
    if (size > this.limit) throw new TooLarge(this.limit, size);
    return json;
  }

  /** A getter may give something else than when it was checked. That is still the code's own result, and it is still JSON. */
  #write(value: Any): string {
    let json = this.#exact ? stringify(value) : stringify(value, withPoints);
    if (typeof json !== "string") throw new NotJson("the result is not JSON: $ is changed by a toJSON");
    if (indexOf(json, "\\ud") >= 0) json = withoutLoneSurrogates(json);
    return json;
  }

  #parts(list: Any[], send: (part: string) => void): string {
    this.#nodes = 1;
    this.#open[0] = list;
    this.#begin(list, 0);
    let part = unpolluted(), due = this.#least + PART;
    for (let i = 0; i < list.length; i++) {
      const value = list[i];
      this.#path[0] = i;
      this.#check(value, 1);
      part[part.length] = value;
      if (this.#least < due || i === list.length - 1) continue;
      due = this.#least + PART;
      const json = this.#write(part);
      this.#sent += byteLength(json) - 1; // a comma for two brackets
      if (this.#sent < this.limit) send(json);
      part = unpolluted();
    }
    return this.#write(part);
  }

  /** What is too large is counted on for a while: its size helps whoever has to make it smaller. */
  #count(size: number): void {
    this.#least += size;
    if (this.#least > COUNTED * this.limit || this.#least > this.limit + MOST_BEYOND) throw new TooLarge(this.limit, null);
  }

  #refuse(what: string, depth: number): never {
    let path = "$";
    for (let i = 0; i < depth; i++) {
      const step = this.#path[i];
      path += typeof step === "number" ? `[${step}]` : test(step) ? `.${step}` : `[${stringify(step)}]`;
    }
    throw new NotJson(`the result is not JSON: ${path.length > 120 ? `…${slice(path, -100)}` : path} is ${what}`);
  }

  #check(value: Any, depth: number): void {
    if (++this.#nodes > MAX_NODES) throw new TooLarge(this.limit, null);
    const size = leaf(value);
    if (size >= 0) return this.#count(size);
    switch (typeof value) {
      case "number":
        if (!isFinite(value)) this.#refuse(`${value}; return null or a text`, depth);
        if (inexact(value)) this.#exact = false;
        return this.#count(1);
      case "undefined":
        return this.#count(4);
      case "bigint":
        return this.#refuse("a BigInt; use Number(x), or String(x)", depth);
      case "function":
        return this.#refuse("a function; call it, or leave it out", depth);
      case "symbol":
        return this.#refuse("a symbol; leave it out", depth);
    }
    if (value === null) return this.#count(4);
    if (depth >= MAX_DEPTH) this.#refuse(`nested more than ${MAX_DEPTH} levels deep; return something flatter`, depth);
    for (let i = 0; i < depth; i++) if (this.#open[i] === value) this.#refuse("a reference to what contains it", depth);
    this.#open[depth] = value;
    if (isArray(value)) this.#array(value, depth);
    else this.#object(value, depth);
  }

  #begin(list: Any[], depth: number): void {
    const { length } = list;
    if (length > MAX_NODES) throw new TooLarge(this.limit, null);
    if (typeof (list as Any).toJSON === "function") this.#refuse("an array with toJSON; call it", depth);
    this.#count(length > 1 ? length + 1 : 2);
  }

  #array(list: Any[], depth: number): void {
    this.#begin(list, depth);
    for (let i = 0; i < list.length; i++) {
      const inner = list[i], size = leaf(inner);
      if (size < 0) {
        this.#path[depth] = i;
        this.#check(inner, depth + 1);
      } else this.#leaf(size);
    }
  }

  #leaf(size: number): void {
    if (++this.#nodes > MAX_NODES) throw new TooLarge(this.limit, null);
    this.#count(size);
  }

  #object(value: Any, depth: number): void {
    const prototype = getPrototypeOf(value);
    const plain = prototype === objectPrototype || prototype === null ||
      (getPrototypeOf(prototype) === null && has(prototype, "hasOwnProperty"));
    if (typeof value.$$typeof === "symbol") {
      this.#refuse("a React element; render it: renderToStaticMarkup(element) of react-dom/server", depth);
    }
    if (!plain) this.#refuse(otherObject(value), depth);
    if (typeof value.toJSON === "function") this.#refuse("an object with toJSON; call it", depth);
    const names = keys(value), inners = values(value);
    this.#count(2);
    for (let i = 0; i < names.length; i++) {
      const name = names[i], inner = inners[i];
      if (inner === undefined) continue;
      const size = leaf(inner);
      this.#count(name.length + 3);
      if (size < 0) {
        this.#path[depth] = name;
        this.#check(inner, depth + 1);
      } else this.#leaf(size);
    }
  }
}

/** Bytes that a plain value has at least; -1: it has to be looked at. */
function leaf(value: Any): number {
  switch (typeof value) {
    case "string":
      return value.length + 2;
    case "number":
      return value < EXACT && value > -EXACT ? 1 : -1;
    case "boolean":
      return 4;
    default:
      return -1;
  }
}

/** Beyond 2^53 the digits are those of a float: `39788110577090250` would be read as another integer. */
function inexact(value: number): boolean {
  return (value >= EXACT || value <= -EXACT) && value < 1e21 && value > -1e21;
}

function withPoints(_key: string, value: Any): Any {
  return typeof value === "number" && inexact(value) ? rawJSON(`${value}.0`) : value;
}

/** A list whose elements are its own, whatever became of the prototype of arrays. */
function unpolluted(): Any[] {
  return setPrototypeOf([], null);
}

/** `JSON.stringify` writes half a surrogate pair as an escape, and nothing else of that form. */
function withoutLoneSurrogates(json: string): string {
  let clean = "", from = 0;
  for (let at = indexOf(json, "\\"); at >= 0; at = indexOf(json, "\\", at)) {
    if (charAt(json, at + 1) !== "u" || charAt(json, at + 2) !== "d") {
      at += 2;
      continue;
    }
    clean += slice(json, from, at) + "\ufffd";
    from = at += 6;
  }
  return clean + slice(json, from);
}
