/**
 * JavaScript values to JSON (see Values in src/gloveport/wire/PROTOCOL.md).
 *
 * Own enumerable accessors are called, as a reader of `{...value}` would expect; nothing else of the guest runs (no toJSON, no
 * iterators, no traps). A getter may change what is being encoded: a property is looked up again before it is read.
 */

import {
  type Any,
  bytesOf,
  exec,
  hasOwn,
  isArray,
  isWellFormed,
  keys,
  type List,
  list,
  membersOf,
  ObjectPrototype,
  protoOf,
  push,
  stringify,
  toBase64,
  typedLength,
  typedName,
} from "./intrinsics.ts";
import { classOf, dateTime, errorMessage, errorName, regexpText, unboxed } from "./looking.ts";
import { outside } from "./outside.ts";

export const TAGGED = 1, SURROGATES = 2;
const MAX_DEPTH = 200, MAX_VALUES = 1_000_000, MAX_PATH = 300;
const MAX_SAFE = Number.MAX_SAFE_INTEGER;
const IDENTIFIER = /^[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*$/;

/** Thrown, and caught, by this file only. */
const REFUSED = { __proto__: null };

export interface Encoded {
  text: string;
  flags: number;
  /** Why it cannot cross, with the place; `null` when it can. */
  refusal: string | null;
}

class Encoder {
  flags = 0;
  values = 0;
  problem = "";
  advice = "";
  depth = 0;
  objects = list<object>();
  /** The key at each level: a text, a number, or nothing yet. */
  at = list<string | number | undefined>();
}

function refuse(e: Encoder, problem: string, advice = ""): never {
  e.problem = problem + path(e);
  e.advice = advice;
  throw REFUSED;
}

/** "at `lines[0].order`", cut when it is endless. */
function path(e: Encoder): string {
  let text = "";
  for (let i = 0; i < e.depth; i++) {
    const key = e.at[i];
    if (text.length > MAX_PATH) {
      text += "…";
      break;
    }
    if (key === undefined) continue;
    if (typeof key === "number" || isIndex(key)) text += `[${key}]`;
    else if (exec(IDENTIFIER, key) !== null) text += (text === "" ? "" : ".") + shortened(key);
    else text += `["${shortened(key)}"]`;
  }
  return text === "" ? "" : ` at \`${text}\``;
}

function isIndex(key: string): boolean {
  for (let i = 0; i < key.length; i++) if (key[i] < "0" || key[i] > "9") return false;
  return key.length > 0 && key.length < 10;
}

function shortened(key: string): string {
  if (key.length <= MAX_PATH) return key;
  let text = "";
  for (let i = 0; i < MAX_PATH; i++) text += key[i];
  return text;
}

export function textOf(e: { flags: number }, text: string): string {
  if (!isWellFormed(text)) e.flags |= SURROGATES;
  return stringify(text);
}

/** A finite number as JSON; an integer above 2^53-1 gets ".0", so that a reader makes it a float again. */
function number(e: Encoder, value: number): string {
  if (value - value !== 0 || (value === 0 && 1 / value < 0)) {
    return tagged(
      e,
      "number",
      `"${value !== value ? "NaN" : value === 0 ? "-0" : value > 0 ? "Infinity" : "-Infinity"}"`,
    );
  }
  const text = "" + value;
  if (value <= MAX_SAFE && value >= -MAX_SAFE) return text;
  for (let i = 0; i < text.length; i++) if (text[i] === "." || text[i] === "e") return text;
  return text + ".0";
}

function tagged(e: Encoder, tag: string, json: string): string {
  e.flags |= TAGGED;
  return `{"$":"${tag}","v":${json}}`;
}

function count(e: Encoder, more: number): void {
  if (e.values + more > MAX_VALUES) refuse(e, "data of more than 1,000,000 values", "return less");
}

function enter(e: Encoder, object: object): void {
  for (let i = 0; i < e.depth; i++) if (e.objects[i] === object) refuse(e, "a cycle");
  if (e.depth === MAX_DEPTH) refuse(e, "data nested more than 200 levels deep", "return flatter data");
  e.objects[e.depth] = object;
  e.at[e.depth++] = undefined;
}

function element(e: Encoder, value: unknown): string {
  if (value !== undefined) return encode(e, value);
  e.flags |= TAGGED;
  if (++e.values > MAX_VALUES) count(e, 0);
  return '{"$":"undefined"}';
}

function array(e: Encoder, value: Any): string {
  const length = value.length;
  count(e, length);
  enter(e, value);
  const at = e.depth - 1;
  let out = "[";
  for (let i = 0; i < length; i++) {
    e.at[at] = i;
    const item = value[i];
    out += i ? "," : "";
    if (typeof item === "number" && item - item === 0 && (item | 0) === item && (item !== 0 || 1 / item > 0)) {
      e.values++;
      out += item;
    } else {
      out += element(e, item);
    }
  }
  e.depth--;
  return out + "]";
}

function plain(e: Encoder, value: Any): string {
  enter(e, value);
  const at = e.depth - 1, names = keys(value), n = names.length;
  count(e, n);
  let out = "{", first = true, dollar = false;
  for (let i = 0; i < n; i++) {
    const name = names[i];
    if (name === "$") dollar = true;
    e.at[at] = name;
    if (!hasOwn(value, name)) continue;
    const item = value[name];
    if (item === undefined) continue;
    out += (first ? "" : ",") + textOf(e, name) + ":" + encode(e, item);
    first = false;
  }
  e.depth--;
  out += "}";
  return dollar ? tagged(e, "object", out) : out;
}

/** From a copy of its members: a getter in a member may change it. */
function collection(e: Encoder, value: Any, isMap: boolean): string {
  const members = membersOf(value, isMap, MAX_VALUES);
  count(e, members.n);
  enter(e, value);
  const at = e.depth - 1, step = isMap ? 2 : 1;
  let out = "[";
  for (let i = 0; i < members.n; i += step) {
    e.at[at] = i / step;
    if (i) out += ",";
    out += isMap ? `[${element(e, members[i])},${element(e, members[i + 1])}]` : element(e, members[i]);
  }
  e.depth--;
  return tagged(e, isMap ? "map" : "set", out + "]");
}

function typedArray(e: Encoder, value: Any): string {
  const name = typedName(value);
  if (name === "Uint8Array" || name === "Uint8ClampedArray") return bytes(e, value, "typedarray");
  const n = typedLength(value);
  count(e, n);
  e.values += n;
  let out = "[";
  for (let i = 0; i < n; i++) {
    const item = value[i];
    out += (i ? "," : "") + (typeof item === "bigint" ? tagged(e, "bigint", `"${item}"`) : number(e, item));
  }
  return out + "]";
}

function bytes(e: Encoder, value: Any, kind: string): string {
  return tagged(e, "bytes", `"${toBase64(bytesOf(value, kind))}"`);
}

function object(e: Encoder, value: object): string {
  switch (classOf(value)) {
    case "proxy":
      return refuse(e, "a Proxy");
    case "promise":
      return refuse(e, "a Promise", "await it first");
    case "weakmap":
      return refuse(e, "a WeakMap");
    case "weakset":
      return refuse(e, "a WeakSet");
    case "weakref":
      return refuse(e, "a WeakRef");
    case "function":
      return refuse(e, "a function");
    case "generator":
    case "iterator":
      return refuse(e, "an iterator", "make an array of it first, as with Array.from()");
    case "boxed":
      e.values--;
      return encode(e, unboxed(value));
    case "date": {
      const ms = dateTime(value);
      return tagged(e, "date", ms === ms ? "" + ms : "null");
    }
    case "error":
      return tagged(e, "error", `{"name":${textOf(e, errorName(value))},"message":${textOf(e, errorMessage(value))}}`);
    case "regexp":
      return textOf(e, regexpText(value));
    case "arraybuffer":
      return bytes(e, value, "arraybuffer");
    case "dataview":
      return bytes(e, value, "dataview");
    case "typedarray":
      return typedArray(e, value);
    case "arguments":
    case "array":
      return array(e, value);
    case "map":
      return collection(e, value, true);
    case "set":
      return collection(e, value, false);
  }
  return plain(e, value);
}

function encode(e: Encoder, value: unknown): string {
  if (++e.values > MAX_VALUES) count(e, 0);
  switch (typeof value) {
    case "number":
      return number(e, value);
    case "boolean":
      return value ? "true" : "false";
    case "string":
      return textOf(e, value);
    case "bigint":
      return tagged(e, "bigint", `"${value}"`);
    case "symbol":
      return refuse(e, "a symbol");
    case "undefined":
      return element(e, undefined);
    case "function":
      return refuse(e, outside.isProxy(value) ? "a Proxy" : "a function");
  }
  if (value === null) return "null";
  if (outside.isProxy(value)) return refuse(e, "a Proxy");
  if (isArray(value)) return array(e, value);
  // An object of another class that was given this prototype counts as what it pretends to be.
  return protoOf(value) === ObjectPrototype ? plain(e, value) : object(e, value as object);
}

/** One value (`single`), or the arguments of a call. Throws what a getter of the guest throws. */
export function encodeValues(values: List<unknown>, single: boolean, of: string, advice: string): Encoded {
  const e = new Encoder();
  let text = "", i = 0;
  try {
    for (; i < values.n; i++) text += (i ? "," : "") + (single ? encode(e, values[i]) : element(e, values[i]));
  } catch (error) {
    if (error !== REFUSED) throw error;
    const where = single ? "" : `argument ${i + 1} of ${of}: `;
    return {
      text: "",
      flags: 0,
      refusal: `${where}${e.problem} cannot leave the sandbox: ${e.advice === "" ? advice : e.advice}`,
    };
  }
  return { text, flags: e.flags, refusal: null };
}

export function one(value: unknown): List<unknown> {
  const made = list<unknown>();
  push(made, value);
  return made;
}
