/** Frames on stdin and stdout: u32 little-endian length, then JSON. Taken before a widget can replace anything. */

const { stdin, stdout } = Deno;

async function read(length: number): Promise<Uint8Array | null> {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = await stdin.read(bytes.subarray(filled));
    if (!count) return null;
    filled += count;
  }
  return bytes;
}

/** The next message, or null when the host is gone. */
export async function receive(): Promise<Record<string, unknown> | null> {
  const header = await read(4);
  const body = header && await read(new DataView(header.buffer).getUint32(0, true));
  return body && JSON.parse(new TextDecoder().decode(body));
}

export function send(message: Record<string, unknown>): void {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const frame = new Uint8Array(4 + body.length);
  new DataView(frame.buffer).setUint32(0, body.length, true);
  frame.set(body, 4);
  for (let sent = 0; sent < frame.length;) sent += stdout.writeSync(frame.subarray(sent));
}
