/** `btoa` and `atob`: https://html.spec.whatwg.org/multipage/webappapis.html#atob */

import {
  type Any,
  charCodeAt,
  exec,
  fromBase64,
  hidden,
  slice,
  toBase64,
  typedLength,
  Uint8Array,
} from "./intrinsics.ts";

const fromCharCode = String.fromCharCode;
const { apply } = Reflect;
const PIECE = 4096;

let DOMException: Any;

function refuse(message: string): never {
  throw new DOMException(message, "InvalidCharacterError");
}

function bytesOfLatin1(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const unit = charCodeAt(text, i);
    if (unit > 255) refuse("btoa: the text holds a character beyond U+00FF");
    bytes[i] = unit;
  }
  return bytes;
}

function latin1(bytes: Uint8Array): string {
  const n = typedLength(bytes);
  let text = "";
  for (let at = 0; at < n; at += PIECE) {
    const piece: Any = { __proto__: null, length: n - at < PIECE ? n - at : PIECE };
    for (let i = 0; i < piece.length; i++) piece[i] = bytes[at + i];
    text += apply(fromCharCode, null, piece);
  }
  return text;
}

const ALLOWED = /^[\t\n\f\r A-Za-z0-9+/]*={0,2}[\t\n\f\r ]*$/;
const SPACE = /[\t\n\f\r ]/;

function withoutSpace(text: string): string {
  if (exec(SPACE, text) === null) return text;
  let out = "", start = 0;
  for (let i = 0; i < text.length; i++) {
    if (exec(SPACE, text[i]) === null) continue;
    out += slice(text, start, i);
    start = i + 1;
  }
  return out + slice(text, start);
}

export function defineBase64(): void {
  ({ DOMException } = globalThis as Any);
  hidden(
    globalThis,
    "btoa",
    {
      btoa(text: Any) {
        return toBase64(bytesOfLatin1("" + text));
      },
    }.btoa,
  );
  hidden(
    globalThis,
    "atob",
    {
      atob(text: Any) {
        const plain = withoutSpace("" + text);
        const padded = plain.length > 0 && plain[plain.length - 1] === "=";
        if (exec(ALLOWED, plain) === null || plain.length % 4 === 1 || (padded && plain.length % 4 !== 0)) {
          refuse("atob: not base64");
        }
        try {
          return latin1(fromBase64(plain));
        } catch {
          return refuse("atob: not base64");
        }
      },
    }.atob,
  );
}
