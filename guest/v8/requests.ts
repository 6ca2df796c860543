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

export class Reader {
  #at = 0;
  #bytes: Uint8Array;
  #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  #take(size: number): number {
    const at = this.#at;
    if (at + size > this.#bytes.length) throw new Malformed();
    this.#at += size;
    return at;
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

  part(): Uint8Array {
    const size = this.u32(), at = this.#take(size);
    return this.#bytes.subarray(at, at + size);
  }

  text(): string {
    const bytes = this.part();
    try {
      return strict.decode(bytes);
    } catch {
      return wtf8(bytes);
    }
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw new Malformed();
  }
}
