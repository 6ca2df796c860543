/** Frames on stdin and stdout: u32 little-endian length, then JSON. The host speaks first, and is trusted. */

/** Reads exactly `length` bytes; null at the end of the input, which is when the host is gone. */
function read(length: number): Uint8Array | null {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = Deno.stdin.readSync(bytes.subarray(filled));
    if (!count) return null;
    filled += count;
  }
  return bytes;
}

/** The next message, or null when the host is gone. Nothing else happens in this process while it waits. */
export function receive(): Record<string, unknown> | null {
  const header = read(4);
  const body = header && read(new DataView(header.buffer).getUint32(0, true));
  return body && JSON.parse(new TextDecoder().decode(body));
}

export function send(message: Record<string, unknown>): void {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const frame = new Uint8Array(4 + body.length);
  new DataView(frame.buffer).setUint32(0, body.length, true);
  frame.set(body, 4);
  for (let sent = 0; sent < frame.length;) sent += Deno.stdout.writeSync(frame.subarray(sent));
}
