/**
 * The builder: a resident process that makes widgets' scripts and style sheets for every session of its host.
 *
 * A request is `{"id", "op", ...}`; its reply has the same id and `"ok": true` with the result, or `"ok": false` with `kind`
 * ("source" or "internal") and `message`. While it builds it may ask `{"id", "ask": {"specifier", "importer"}}`, which the host answers
 * with `{"id", "answer"}` before anything else.
 */

import { ready, receive, send } from "../shared/messages.ts";
import { build, BuildFailure, start } from "./build.ts";
import type { Answer, Ask } from "./imports.ts";
import { CssFailure, prepare } from "./tailwind.ts";

type Request = { id: number; op: string; source: string; css: string | null; packages: boolean };

function asking(id: number): Ask {
  return (specifier, importer) => {
    send({ id, ask: { specifier, importer } });
    const said = receive();
    if (said?.id !== id) throw new Error("the host did not answer what it was asked");
    return said.answer as Answer;
  };
}

async function answer({ id, op, source, css, packages }: Request): Promise<Record<string, unknown>> {
  if (op !== "build") throw new Error(`no such op: ${op}`);
  return { ...await build(source, { tailwind: css !== null, ask: packages ? asking(id) : null }, css) };
}

async function reply(request: Request): Promise<Record<string, unknown>> {
  const { id } = request;
  try {
    return { id, ok: true, ...await answer(request) };
  } catch (error) {
    if (error instanceof CssFailure) return { id, ok: false, kind: "source", message: error.message, line: 0, column: 0 };
    if (!(error instanceof BuildFailure)) return { id, ok: false, kind: "internal", message: String(error) };
    return { id, ok: false, kind: "source", message: error.message, line: error.line, column: error.column };
  }
}

await start(new URL("./esbuild.wasm", import.meta.url));
ready();
for (let request; (request = receive());) {
  send(await reply(request as Request));
  if (request.css !== null && request.css !== undefined) await prepare();
}
