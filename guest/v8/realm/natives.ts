/**
 * `native`: what the bootstrap files (native/quickjs/bootstrap) need and JavaScript alone cannot do safely. The functions that
 * they keep never reach the guest's own code. None of these runs a getter or a trap. The wasm engine has the same in natives.c.
 */

import {
  type Any,
  apply,
  bytesOf,
  defineProperty,
  exec,
  fromBase64,
  functionText,
  isObject,
  mapSize,
  membersOf,
  ownKeys,
  protoOf,
  setSize,
  startsWith,
  toBase64,
  typedLength,
  TypeError,
  Uint8Array,
} from "./intrinsics.ts";
import { clock, quietTimer } from "./clock.ts";
import {
  classOf,
  dateTime,
  errorMessage,
  errorName,
  errorStack,
  ownData,
  ownKind,
  regexpText,
  unboxed,
} from "./looking.ts";
import { outside } from "./outside.ts";
import { fill } from "./random.ts";
import { consoleLine, indent } from "./streams.ts";
import { setInspector } from "./thrown.ts";

let formatter: (...args: unknown[]) => string;

export const format = (args: Any): string => apply(formatter, undefined, args);

function sizeOf(value: Any): number {
  switch (classOf(value)) {
    case "map":
      return mapSize(value);
    case "set":
      return setSize(value);
    case "array":
      return value.length;
    case "typedarray":
      return typedLength(value);
    case "arraybuffer":
      return typedLength(bytesOf(value, "arraybuffer"));
    case "dataview":
      return typedLength(bytesOf(value, "dataview"));
  }
  return 0;
}

/** A real array: the bootstrap files read `length` and own elements of it. */
function entriesOf(value: Any, limit: number): unknown[] {
  const kind = classOf(value), made: Any = [];
  if (kind !== "map" && kind !== "set") return made;
  const members = membersOf(value, kind === "map", limit);
  for (let i = 0; i < members.n; i++) {
    defineProperty(
      made,
      i,
      { __proto__: null, value: members[i], writable: true, enumerable: true, configurable: true } as Any,
    );
  }
  return made;
}

function viewOf(value: unknown): Uint8Array {
  const kind = classOf(value);
  if (kind !== "arraybuffer" && kind !== "typedarray" && kind !== "dataview") throw new TypeError("not a buffer");
  return bytesOf(value, kind);
}

/** Length of the unfinished but so far well-formed character at the end of UTF-8; 0 when there is none. */
function unfinished(bytes: Uint8Array): number {
  const n = typedLength(bytes);
  for (let back = 1; back <= 3 && back <= n; back++) {
    const lead = bytes[n - back];
    if (lead < 0x80) return 0;
    if (lead < 0xC0) continue;
    const need = lead >= 0xC2 && lead <= 0xDF
      ? 2
      : lead >= 0xE0 && lead <= 0xEF
      ? 3
      : lead >= 0xF0 && lead <= 0xF4
      ? 4
      : 0;
    if (need <= back) return 0;
    if (back > 1) {
      const second = bytes[n - back + 1];
      const low = lead === 0xE0 ? 0xA0 : lead === 0xF0 ? 0x90 : 0x80,
        high = lead === 0xED ? 0x9F : lead === 0xF4 ? 0x8F : 0xBF;
      if (second < low || second > high) return 0;
    }
    return back;
  }
  return 0;
}

function utf8Decode(value: unknown, fatal: unknown, stream: unknown): Any {
  const bytes = viewOf(value), left = stream ? unfinished(bytes) : 0, n = typedLength(bytes) - left;
  const whole = left ? new Uint8Array(n) : bytes;
  if (left) { for (let i = 0; i < n; i++) whole[i] = bytes[i]; }
  const text = outside.utf8Decode(whole, !!fatal);
  return text === null ? null : [text, n];
}

function utf8Encode(text: Any): Uint8Array {
  if (typeof text !== "string") throw new TypeError("not a string");
  const bytes = new Uint8Array(outside.utf8Length(text));
  outside.utf8Into(text, bytes);
  return bytes;
}

const BASE64 = /^[\w+/-]*={0,2}$/;
const OTHER = /[-_]/;

function base64Decode(text: Any): Uint8Array | null {
  if (typeof text !== "string") throw new TypeError("not a string");
  if (exec(BASE64, text) === null) return null;
  try {
    return fromBase64(text, exec(OTHER, text) === null ? STANDARD : URL_SAFE);
  } catch { // a length that no bytes have, or both alphabets
    return null;
  }
}

const STANDARD = { __proto__: null, alphabet: "base64" } as Any;
const URL_SAFE = { __proto__: null, alphabet: "base64url", omitPadding: true } as Any;

export const native: Any = {
  __proto__: null,
  classOf,
  isProxy: (value: unknown) => isObject(value) && outside.isProxy(value),
  ownKeys: (value: Any) => (isObject(value) && !outside.isProxy(value) ? ownKeys(value) : []),
  ownKind,
  ownData,
  protoOf: (value: Any) => (isObject(value) && !outside.isProxy(value) ? protoOf(value) : null),
  entriesOf,
  sizeOf,
  promiseState: (value: Any) => outside.promiseState(value),
  promiseResult(value: Any) {
    let found: unknown;
    outside.promiseResult(value, (result) => {
      found = result;
    });
    return found;
  },
  unbox: (value: Any) => (classOf(value) === "date" ? dateTime(value) : isObject(value) ? unboxed(value) : value),
  regexpText,
  errorName: (value: Any) => (isObject(value) && !outside.isProxy(value) ? errorName(value) : ""),
  errorMessage: (value: Any) => (isObject(value) && !outside.isProxy(value) ? errorMessage(value) : ""),
  errorStack,
  isClass: (value: Any) =>
    typeof value === "function" && !outside.isProxy(value) && startsWith(functionText(value), "class"),
  now: () => clock.read(),
  origin: () => clock.origin(),
  randomFill(value: Any) {
    fill(viewOf(value));
    return value;
  },
  utf8Encode,
  utf8EncodeInto(text: Any, into: Any) {
    const read = outside.utf8Into(text, viewOf(into));
    return [read, outside.utf8Written()];
  },
  utf8Decode,
  base64Encode: (value: Any, url: Any) => toBase64(viewOf(value), url ? URL_SAFE : undefined),
  base64Decode,
  log(stream: number, text: string) {
    consoleLine(stream, text);
  },
  quietTimer,
  indent,
  setFormatter(given: Any) {
    formatter = given;
  },
  setInspector,
};
