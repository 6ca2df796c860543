// TextEncoder and TextDecoder (https://encoding.spec.whatwg.org/) for utf-8, utf-16le, utf-16be and windows-1252, which is
// what the standard makes of latin1 and ascii. Other labels are a RangeError: their tables cost more than they are used.
(native, primordials) => {
  'use strict';
  const { apply, slice, charCodeAt, Uint8Array, TypeError, RangeError, bytesOf, copyBytes, dictionary } = primordials;
  const { utf8Encode, utf8EncodeInto, utf8Decode, classOf } = native;
  const { Uint16Array } = globalThis;
  const fromCharCode = String.fromCharCode;
  const lower = primordials.method(String.prototype.toLowerCase);

  const LABELS = {
    __proto__: null,
    'utf-8': 'unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8',
    'windows-1252': 'ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 ' +
      'iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252',
    'utf-16be': 'unicodefffe utf-16be',
    'utf-16le': 'csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le',
  };
  const encodings = { __proto__: null };
  for (const name in LABELS) for (const label of LABELS[name].split(' ')) encodings[label] = name;

  // Bytes 0x80 to 0x9F; all others are the code point of the same number.
  const WINDOWS_1252 = '\u20AC\x81\u201A\u0192\u201E\u2026\u2020\u2021\u02C6\u2030\u0160\u2039\u0152\x8D\u017D\x8F' +
    '\x90\u2018\u2019\u201C\u201D\u2022\u2013\u2014\u02DC\u2122\u0161\u203A\u0153\x9D\u017E\u0178';

  const isSpace = (c) => c === 32 || c === 9 || c === 10 || c === 12 || c === 13;
  const encodingOf = (label) => {
    const text = '' + label;
    let from = 0, to = text.length;
    while (from < to && isSpace(charCodeAt(text, from))) from++;
    while (from < to && isSpace(charCodeAt(text, to - 1))) to--;
    const name = encodings[lower(slice(text, from, to))];
    if (name === undefined) {
      throw new RangeError(`TextDecoder: the encoding '${slice(text, 0, 40)}' is not supported; use utf-8, utf-16le, utf-16be or latin1`);
    }
    return name;
  };

  // Code units to text, in pieces that fit the arguments of a call.
  const PIECE = 2048;
  const unitsText = (units, n) => {
    let out = '';
    for (let at = 0; at < n; at += PIECE) {
      const piece = { __proto__: null, length: n - at < PIECE ? n - at : PIECE };
      for (let i = 0; i < piece.length; i++) piece[i] = units[at + i];
      out += apply(fromCharCode, null, piece);
    }
    return out;
  };

  // Each decoder: (bytes, fatal, stream) -> {text, used: number of bytes}, null when ill-formed and `fatal`.
  const utf8 = (bytes, fatal, stream) => {
    const pair = utf8Decode(bytes, fatal, stream);
    return pair === null ? null : { __proto__: null, text: pair[0], used: pair[1] };
  };
  const windows1252 = (bytes) => {
    const n = bytes.length;
    let at = 0;
    while (at < n && bytes[at] < 0x80) at++;
    if (at === n) return utf8(bytes, false, false);
    const wide = new Uint8Array(n * 3); // as UTF-8, which becomes text at once
    let to = 0;
    for (let i = 0; i < n; i++) {
      const b = bytes[i], u = b >= 0x80 && b < 0xA0 ? charCodeAt(WINDOWS_1252, b - 0x80) : b;
      if (u < 0x80) {
        wide[to++] = u;
      } else if (u < 0x800) {
        wide[to++] = 0xC0 | u >> 6;
        wide[to++] = 0x80 | u & 63;
      } else {
        wide[to++] = 0xE0 | u >> 12;
        wide[to++] = 0x80 | u >> 6 & 63;
        wide[to++] = 0x80 | u & 63;
      }
    }
    const made = new Uint8Array(primordials.bufferOf(wide), 0, to);
    return { __proto__: null, text: utf8Decode(made, false, false)[0], used: n };
  };
  const utf16 = (big) => (bytes, fatal, stream) => {
    const length = bytes.length, units = new Uint16Array((length >> 1) + 1);
    const unit = (at) => (big ? bytes[at] << 8 | bytes[at + 1] : bytes[at] | bytes[at + 1] << 8);
    let n = 0, at = 0;
    for (; at + 1 < length; at += 2) {
      const u = unit(at);
      if ((u & 0xF800) !== 0xD800) {
        units[n++] = u;
        continue;
      }
      if ((u & 0xFC00) === 0xD800) {
        if (at + 3 >= length) {
          if (stream) break;
        } else if ((unit(at + 2) & 0xFC00) === 0xDC00) {
          units[n++] = u;
          units[n++] = unit(at += 2);
          continue;
        }
      }
      if (fatal) return null;
      units[n++] = 0xFFFD;
      if ((u & 0xFC00) === 0xD800 && at + 3 === length) at = length; // a half unit after it belongs to the same error
    }
    if (at < length && !stream) {
      if (fatal) return null;
      units[n++] = 0xFFFD;
      at = length;
    }
    return { __proto__: null, text: unitsText(units, n), used: at };
  };
  const decoders = { __proto__: null, 'utf-8': utf8, 'windows-1252': windows1252, 'utf-16le': utf16(false), 'utf-16be': utf16(true) };

  const joined = (a, b) => {
    const both = new Uint8Array(a.length + b.length);
    copyBytes(both, a, 0);
    copyBytes(both, b, a.length);
    return both;
  };

  class TextDecoder {
    #encoding; #fatal; #ignoreBOM;
    #left = null; // bytes of an unfinished character
    #started = false; // something was decoded in this stream: no byte order mark can follow
    constructor(label = 'utf-8', options = undefined) {
      this.#encoding = encodingOf(label);
      const bag = dictionary(options, 'TextDecoder');
      this.#fatal = !!bag.fatal;
      this.#ignoreBOM = !!bag.ignoreBOM;
    }
    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(input = undefined, options = undefined) {
      const fatal = this.#fatal, stream = !!dictionary(options, 'TextDecoder.decode').stream;
      let bytes = input === undefined ? new Uint8Array(0) : bytesOf(input);
      if (bytes === null) throw new TypeError('TextDecoder.decode: the input must be an ArrayBuffer or a view of one');
      if (this.#left !== null) bytes = joined(this.#left, bytes);
      this.#left = null;
      const result = decoders[this.#encoding](bytes, fatal, stream);
      if (result === null) {
        this.#started = false;
        throw new TypeError(`TextDecoder.decode: the input is not valid ${this.#encoding}`);
      }
      let text = result.text;
      if (result.used < bytes.length) {
        this.#left = new Uint8Array(bytes.length - result.used);
        for (let i = 0; i < this.#left.length; i++) this.#left[i] = bytes[result.used + i];
      }
      if (!this.#started && !this.#ignoreBOM && text.length > 0 && charCodeAt(text, 0) === 0xFEFF && this.#encoding !== 'windows-1252') {
        text = slice(text, 1);
        this.#started = true;
      }
      this.#started = stream && (this.#started || text.length > 0);
      return text;
    }
    static is(value) { return #encoding in value; }
  }

  class TextEncoder {
    #brand;
    get encoding() { return (this.#brand, 'utf-8'); }
    encode(input = '') { return (this.#brand, utf8Encode('' + input)); }
    encodeInto(source, destination) {
      this.#brand;
      if (classOf(destination) !== 'typedarray' || primordials.typedName(destination) !== 'Uint8Array') {
        throw new TypeError('TextEncoder.encodeInto: the destination must be a Uint8Array');
      }
      const pair = utf8EncodeInto('' + source, destination);
      return { read: pair[0], written: pair[1] };
    }
    static is(value) { return #brand in value; }
  }
  for (const Class of [TextDecoder, TextEncoder]) {
    primordials.addBrand(Class.is);
    delete Class.is;
    primordials.platformClass(Class, Class.name);
  }
}
