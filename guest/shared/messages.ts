/** JSON in frames on stdin and stdout: u32 little-endian length of what follows, u8 kind, body. For programs that are asked one thing at a time. */

const { stdin, stdout } = Deno; // taken before a guest can replace them

/** Says that the program is ready for its first request. */
const READY = 0x72;
const MESSAGE = 0x6a;

/** Reads exactly `length` bytes; null at the end of the input, which is when the host is gone. */
function read(length: number): Uint8Array | null {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = stdin.readSync(bytes.subarray(filled));
    if (!count) return null;
    filled += count;
  }
  return bytes;
}

function write(kind: number, body: Uint8Array): void {
  const frame = new Uint8Array(5 + body.length);
  new DataView(frame.buffer).setUint32(0, 1 + body.length, true);
  frame[4] = kind;
  frame.set(body, 5);
  for (let sent = 0; sent < frame.length;) sent += stdout.writeSync(frame.subarray(sent));
}

/** The next message, or null when the host is gone. Nothing else happens in this process while it waits. */
export function receive(): Record<string, unknown> | null {
  const header = read(5);
  const body = header && read(new DataView(header.buffer).getUint32(0, true) - 1);
  return body && JSON.parse(new TextDecoder().decode(body));
}

function wellFormed(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.toWellFormed() : value;
}

/** Lone surrogates, which the host's decoder refuses, become U+FFFD: a source has them, or a text that was cut in the middle of a character. */
export function send(message: Record<string, unknown>): void {
  const text = JSON.stringify(message); // where they are escapes
  const body = /\\ud[89a-f]/.test(text) ? JSON.stringify(message, wellFormed) : text;
  write(MESSAGE, new TextEncoder().encode(body));
}

export function ready(): void {
  write(READY, new Uint8Array());
}
