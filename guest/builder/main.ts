/**
 * The builder: a resident process that makes widgets' scripts and style sheets for every session of its host.
 *
 * A request is `{"id", "op", ...}`; its reply has the same id and `"ok": true` with the result, or `"ok": false` with `kind` ("source"),
 * `message` and the place; `"last": true` says that it ends now. It also ends, without a reply, at an error of its own. While it builds it may ask `{"id", "ask": {"specifier", "importer", "kind"}}`, which the host answers
 * with `{"id", "answer"}` before anything else.
 */

import { ready, receive, send } from "../shared/messages.ts";
import { build, BuildFailure, start } from "./build.ts";
import type { Answer, Ask } from "./imports.ts";
import { CssFailure, prepare } from "./tailwind.ts";

type Request = { id: number; op: string; source: string; css: string | null; packages: boolean };

/** Asks the host everything once, though a source may be built twice. A module that it gave before comes without its code. */
function asking(id: number): Ask {
  const answers = new Map<string, Answer>();
  const codes = new Map<string, string>();
  return (specifier, importer, kind) => {
    const question = JSON.stringify([specifier, importer, kind]);
    const known = answers.get(question);
    if (known) return known;
    send({ id, ask: { specifier, importer, kind } });
    const said = receive();
    if (said?.id !== id) throw new Error("the host did not answer what it was asked");
    const answer = said.answer as Answer;
    if ("name" in answer) {
      answer.code ??= codes.get(answer.name)!;
      codes.set(answer.name, answer.code);
    }
    answers.set(question, answer);
    return answer;
  };
}

async function answer({ id, op, source, css, packages }: Request): Promise<Record<string, unknown>> {
  if (op !== "build") throw new Error(`no such op: ${op}`);
  return { ...await build(source, { tailwind: css !== null, ask: packages ? asking(id) : null }, css) };
}

type Failure = { message: string; line: number; column: number };

/** What is told of an error that is the source's fault; null: it is not, or nothing in this process can be relied upon any more. */
function failureOf(error: unknown): Failure | null {
  if (error instanceof BuildFailure) return error;
  return error instanceof CssFailure ? { message: error.message, line: 0, column: 0 } : null;
}

await start(new URL("./esbuild.wasm", import.meta.url));
ready();
for (let request; (request = receive() as Request | null);) {
  const { id, css } = request;
  try {
    send({ id, ok: true, ...await answer(request) });
  } catch (error) {
    const failure = failureOf(error);
    if (!failure) {
      // Too little stack in the middle of WebAssembly, say. The compiler would fail at everything from now on.
      const deep = error instanceof RangeError;
      if (deep) {
        send({
          id,
          ok: false,
          kind: "source",
          message: "the code is nested too deeply",
          line: 0,
          column: 0,
          last: true,
        });
      }
      Deno.exit(1);
    }
    send({ id, ok: false, kind: "source", message: failure.message, line: failure.line, column: failure.column });
  }
  if (css !== null) await prepare();
}
