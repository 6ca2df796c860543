/** Guest requests as bytes, and texts in them: UTF-8, or with lone surrogates, which a source may hold, WTF-8. */

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function wtf8(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length;) {
    const lead = bytes[i];
    const size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    let point = size === 1 ? lead : lead & (0x7F >> size);
    for (let k = 1; k < size; k++) point = point << 6 | bytes[i + k] & 63;
    text += String.fromCodePoint(point);
    i += size;
  }
  return text;
}

export class Malformed extends Error {}

const LONG = 1 << 12, MANY = 1 << 20;
const oneByte = new TextDecoder("latin1");

export class Reader {
  #at = 0;
  #limit: number;
  #bytes: Uint8Array;
  #view: DataView;
  /** All of it, a character a byte, for the short ASCII texts of many requests: to cut one out takes a third of decoding it. */
  #cut = "";

  constructor(bytes: Uint8Array, many = false) {
    this.#bytes = bytes;
    this.#limit = bytes.length;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    if (many && bytes.length <= MANY) this.#cut = oneByte.decode(bytes);
  }

  #take(size: number): number {
    const at = this.#at;
    if (at + size > this.#limit) throw new Malformed();
    this.#at += size;
    return at;
  }

  /** Goes on to the next of several requests; the one before has ended. */
  next(): void {
    this.#limit = this.#bytes.length;
    const size = this.u32();
    this.#limit = this.#take(size) + size;
    this.#at = this.#limit - size;
  }

  peek(): number {
    return this.#bytes[this.#at];
  }

  u8(): number {
    return this.#bytes[this.#take(1)];
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8), true);
  }

  milliseconds(): number {
    const value = this.#view.getFloat64(this.#take(8), true);
    if (!(value >= 0 && value < 1e15)) throw new Malformed();
    return value;
  }

  text(): string {
    const size = this.u32(), at = this.#take(size);
    if (size < LONG && this.#cut !== "" && this.#isAscii(at, size)) return this.#cut.slice(at, at + size);
    const bytes = this.#bytes.subarray(at, at + size);
    try {
      return strict.decode(bytes);
    } catch {
      return wtf8(bytes);
    }
  }

  #isAscii(at: number, size: number): boolean {
    for (const end = at + size; at < end; at++) if (this.#bytes[at] > 127) return false;
    return true;
  }

  /** Over the rest of a request. */
  skip(): void {
    this.#at = this.#limit;
  }

  end(): void {
    if (this.#at !== this.#limit) throw new Malformed();
  }
}
