/** Values to JSON, strictly: what JSON cannot say is refused, with the place where it is. */

import {
  byteLength,
  defineProperty,
  getPrototypeOf,
  isArray,
  isFinite,
  isWellFormed,
  keys,
  objectPrototype,
  stringify,
  text,
  toWellFormed,
} from "./originals.ts";

const MAX_DEPTH = 200;
const EXACT = 2 ** 53;
const COUNTED = 16;
const MAX_NODES = 1_000_000;
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

export class Encoder {
  #out = "";
  #bytes = 0;
  #nodes = 0;
  // Filled: an assignment to what is there calls no setter that a module put on the prototype of arrays.
  #path: Step[] = filled(0);
  #open: (object | null)[] = filled(null);

  constructor(private readonly limit: number) {}

  /** The JSON of a value. Throws `NotJson`, `TooLarge`, and what the value's own getters throw. */
  encode(value: Any): string {
    this.#value(value, 0);
    if (this.#bytes > this.limit) throw new TooLarge(this.limit, this.#bytes);
    return this.#out;
  }

  /** What is too large is counted on for a while: its size helps whoever has to make it smaller. */
  #say(piece: string, size: number): void {
    this.#expect(size);
    this.#bytes += size;
    if (this.#bytes <= this.limit) this.#out += piece;
    else this.#out = "";
  }

  #expect(size: number): void {
    if (this.#bytes + size > COUNTED * this.limit) throw new TooLarge(this.limit, null);
  }

  #refuse(what: string, depth: number): never {
    let path = "$";
    for (let i = 0; i < depth; i++) {
      const step = this.#path[i];
      path += typeof step === "number" ? `[${step}]` : test(step) ? `.${step}` : `[${stringify(step)}]`;
    }
    throw new NotJson(`the result is not JSON: ${path.length > 120 ? `…${path.slice(-100)}` : path} is ${what}`);
  }

  #text(value: string): void {
    this.#expect(value.length + 2);
    const json = stringify(isWellFormed(value) ? value : toWellFormed(value));
    this.#say(json, byteLength(json));
  }

  #value(value: Any, depth: number): void {
    if (++this.#nodes > MAX_NODES) throw new TooLarge(this.limit, null);
    switch (typeof value) {
      case "string":
        return this.#text(value);
      case "number": {
        if (!isFinite(value)) this.#refuse(`${value}; return null or a text`, depth);
        // Beyond 2^53 the digits are those of a float: `39788110577090250` would be read as another integer.
        const digits = text(value === 0 ? 0 : value) + (value > -EXACT && value < EXACT || !integer(value) || (value >= 1e21 || value <= -1e21) ? "" : ".0");
        return this.#say(digits, digits.length);
      }
      case "boolean":
        return this.#say(value ? "true" : "false", value ? 4 : 5);
      case "undefined":
        return this.#say("null", 4);
      case "bigint":
        return this.#refuse("a BigInt; use Number(x), or String(x)", depth);
      case "function":
        return this.#refuse("a function; call it, or leave it out", depth);
      case "symbol":
        return this.#refuse("a symbol; leave it out", depth);
    }
    if (value === null) return this.#say("null", 4);
    if (depth >= MAX_DEPTH) this.#refuse(`nested more than ${MAX_DEPTH} levels deep; return something flatter`, depth);
    for (let i = 0; i < depth; i++) if (this.#open[i] === value) this.#refuse("a reference to what contains it", depth);
    this.#open[depth] = value;
    if (isArray(value)) this.#array(value, depth);
    else this.#object(value, depth);
  }

  #array(value: Any[], depth: number): void {
    const { length } = value;
    if (length > MAX_NODES) throw new TooLarge(this.limit, null);
    this.#expect(length * 2);
    this.#say("[", 1);
    for (let i = 0; i < length; i++) {
      if (i) this.#say(",", 1);
      this.#path[depth] = i;
      this.#value(value[i], depth + 1);
    }
    this.#say("]", 1);
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
    const names = keys(value);
    let first = true;
    this.#say("{", 1);
    for (let i = 0; i < names.length; i++) {
      const name = names[i], inner = value[name];
      if (inner === undefined) continue;
      if (!first) this.#say(",", 1);
      first = false;
      this.#text(name);
      this.#say(":", 1);
      this.#path[depth] = name;
      this.#value(inner, depth + 1);
    }
    this.#say("}", 1);
  }
}

function filled<T>(value: T): T[] {
  const list: T[] = [];
  for (let i = 0; i <= MAX_DEPTH; i++) defineProperty(list, i, { __proto__: null, value, writable: true } as Any);
  return list;
}
