/** Frames on stdin and stdout: u32 little-endian length of what follows, u8 kind, body. See src/gloveport/wire/PROTOCOL.md. */

const { stdin, stdout } = Deno;
const CHUNK = 1 << 16;
let buffer = new Uint8Array(CHUNK), filled = 0;

export interface Frame {
  kind: number;
  body: Uint8Array;
}

function grow(length: number): void {
  if (length <= buffer.length) return;
  const larger = new Uint8Array(length);
  larger.set(buffer.subarray(0, filled));
  buffer = larger;
}

function need(length: number): boolean {
  grow(length);
  while (filled < length) {
    const count = stdin.readSync(buffer.subarray(filled));
    if (!count) return false;
    filled += count;
  }
  return true;
}

/** Waits for the next frame; `null` when the host is gone. */
export function readFrame(): Frame | null {
  if (!need(5)) return null;
  const length = new DataView(buffer.buffer).getUint32(0, true);
  if (!need(4 + length)) return null;
  const frame = { kind: buffer[4], body: buffer.slice(5, 4 + length) };
  buffer.copyWithin(0, 4 + length, filled);
  filled -= 4 + length;
  if (buffer.length > 16 * CHUNK && filled < CHUNK) buffer = buffer.slice(0, CHUNK);
  return frame;
}

/** The same without blocking the event loop; only one of the two may wait. */
export async function readFrameAsync(): Promise<Frame | null> {
  while (filled < 5 || filled < 4 + lengthOfNext()) {
    grow(filled < 5 ? 5 : 4 + lengthOfNext());
    const count = await stdin.read(buffer.subarray(filled));
    if (!count) return null;
    filled += count;
  }
  return readFrame();
}

function lengthOfNext(): number {
  return new DataView(buffer.buffer).getUint32(0, true);
}

const encoder = new TextEncoder();

/** A frame under construction. */
export class Writer {
  #bytes = new Uint8Array(CHUNK);
  #view = new DataView(this.#bytes.buffer);
  length = 0;
  /** Nothing goes out. */
  mute = false;

  #room(more: number): void {
    if (this.length + more <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.length + more));
    larger.set(this.#bytes.subarray(0, this.length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }

  begin(kind: number): void {
    if (this.#bytes.length > 16 * CHUNK) {
      this.#bytes = new Uint8Array(CHUNK);
      this.#view = new DataView(this.#bytes.buffer);
    }
    this.#bytes[4] = kind;
    this.length = 5;
  }

  byte(value: number): void {
    this.#room(1);
    this.#bytes[this.length++] = value;
  }

  u32(value: number): void {
    this.#room(4);
    this.#view.setUint32(this.length, value, true);
    this.length += 4;
  }

  u64(value: number): void {
    this.u32(value % 4294967296);
    this.u32(Math.floor(value / 4294967296));
  }

  /** The head of a reply whose body is there already. */
  patchReply(status: number, nanoseconds: number, reads: number): void {
    const { length } = this;
    this.length = 5;
    this.byte(status);
    this.u64(nanoseconds);
    this.u32(reads);
    this.length = length;
  }

  /** u32 length and UTF-8. */
  text(text: string): void {
    this.#room(4 + text.length * 3);
    const { written } = encoder.encodeInto(text, this.#bytes.subarray(this.length + 4));
    this.#view.setUint32(this.length, written, true);
    this.length += 4 + written;
  }

  /** u32 length and bytes. */
  part(bytes: Uint8Array): void {
    this.u32(bytes.length);
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** A copy of what is in it so far. */
  body(): Uint8Array {
    return this.#bytes.slice(5, this.length);
  }

  send(): void {
    this.#view.setUint32(0, this.length - 4, true);
    if (this.mute) return;
    for (let sent = 0; sent < this.length;) sent += stdout.writeSync(this.#bytes.subarray(sent, this.length));
  }
}
