/**
 * The toolbox: a resident process that compiles model code for every session of its host.
 *
 * Frames on stdin and stdout: u32 little-endian length, then JSON. A request is `{"id", "op", "source"}`; its reply has the
 * same id and `"ok": true` with the result, or `"ok": false` with `kind` ("syntax" or "internal") and `message`.
 */

import { compile, CompileFailure, locating, outline } from "./compile.ts";
import { compileModule } from "./modules.ts";
import { returnLast } from "./wrapper.ts";
import { checkDeclarations, isModule } from "./explain.ts";

const PROTOCOL = 1;

interface Request {
  id: number;
  op: string;
  source: string;
}

function answer({ op, source }: Request): Record<string, unknown> {
  switch (op) {
    case "compile":
      return { ...compile(source) };
    case "script":
      return { ...compile(source, returnLast) };
    case "module":
      return { ...compileModule(source) };
    case "outline":
      return { ...outline(source) };
    case "module_kind":
      return { kind: locating(source, (code) => isModule(code) ? "module" : "session") };
    case "declarations":
      return locating(source, (code) => (checkDeclarations(code), {}));
    case "hello":
      return { protocol: PROTOCOL, deno: Deno.version.deno };
  }
  throw new Error(`no such op: ${op}`);
}

function reply(request: Request): Record<string, unknown> {
  const { id } = request;
  try {
    return { id, ok: true, ...answer(request) };
  } catch (error) {
    if (error instanceof CompileFailure) return { id, ok: false, kind: "syntax", message: error.message, ...error.at };
    if (error instanceof RangeError) {
      return { id, ok: false, kind: "syntax", message: "the code is nested too deeply", line: 0, column: 0 };
    }
    return { id, ok: false, kind: "internal", message: String(error) };
  }
}

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

function write(message: Record<string, unknown>): void {
  const body = new TextEncoder().encode(JSON.stringify(message));
  const frame = new Uint8Array(4 + body.length);
  new DataView(frame.buffer).setUint32(0, body.length, true);
  frame.set(body, 4);
  for (let sent = 0; sent < frame.length;) sent += Deno.stdout.writeSync(frame.subarray(sent));
}

for (;;) {
  const header = read(4);
  const body = header && read(new DataView(header.buffer).getUint32(0, true));
  if (!body) break;
  write(reply(JSON.parse(new TextDecoder().decode(body))));
}
