/** Model code to what an engine evaluates. */

import { topLevelBindings } from "./bindings.ts";
import { explain, inOurWords, keepConstEnums } from "./explain.ts";
import { extractCode } from "./fence.ts";
import { type Position, positionAt, SourceError } from "./position.ts";
import { originalOffset, type SourceMap, stripTypes, transformTypes } from "./types.ts";
import { type Body, emit, parseBody, refuseReserved } from "./wrapper.ts";

export interface Compiled {
  code: string;
  names: string[];
  /** From lines of the body (the first line of `code` is the prelude) to the source; null: they are the same. */
  map: SourceMap | null;
}

/** A source that does not compile, in the lines of the source as it was sent. */
export class CompileFailure extends Error {
  constructor(message: string, readonly at: Position) {
    super(message);
  }
}

interface JavaScript {
  text: string;
  body: Body;
  map: SourceMap | null;
  /** From offsets in `text` to offsets in the source. */
  origin: (offset: number) => number;
}

/** Compiles a session's code; `finish` may change its text, but not its lines. Throws `CompileFailure`. */
export function compile(sent: string, finish = (text: string, _body: Body) => text): Compiled {
  return locating(sent, (source) => {
    const { text, body, map, origin } = toJavaScript(source);
    return relocating(origin, () => {
      refuseReserved(text, body.statements);
      const bindings = topLevelBindings(body.statements);
      return { code: emit(finish(text, body), body.strict, bindings), names: bindings.map(({ name }) => name), map };
    });
  });
}

export interface Outline {
  /** The code without what surrounded it; its lines and columns are those of what was sent. */
  text: string;
  /** It is TypeScript and not JavaScript. */
  typed: boolean;
}

/** What a type checker has to know of a session's code. Throws `CompileFailure` when it does not compile. */
export function outline(sent: string): Outline {
  compile(sent);
  return locating(sent, (source) => {
    const stripped = stripTypes(source);
    return { text: source, typed: stripped.kind === "needs transform" || (stripped.kind === "stripped" && stripped.code !== source) };
  });
}

/** Runs `step` on the code in what was sent, and turns offsets in its errors into lines and columns. */
export function locating<T>(sent: string, step: (source: string) => T, isComment = isInComment): T {
  let source = sent.replace(/^\ufeff/, "");
  try {
    source = extractCode(source, isComment);
    return step(source);
  } catch (error) {
    if (error instanceof SourceError) throw new CompileFailure(error.message, positionAt(source, error.offset));
    throw error;
  }
}

/** Types first: `f(a < b, c > (d))` is a call of a generic function in TypeScript, and only there. */
function toJavaScript(source: string): JavaScript {
  const stripped = stripTypes(source);
  if (stripped.kind === "needs transform") return transformed(source);
  const text = stripped.kind === "stripped" ? stripped.code : source;
  const same = (offset: number) => offset;
  try {
    return { text, body: parseBody(text), map: null, origin: same };
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    throw stripped.kind === "stripped" ? inOurWords(error) : explain(source, error);
  }
}

function transformed(source: string): JavaScript {
  const result = transformTypes(withEnums(source));
  if (!result) throw explain(source, new SourceError("this TypeScript cannot be compiled", -1));
  const { code, map } = result;
  const origin = (offset: number) => originalOffset(map, code, source, offset);
  try {
    return { text: code, body: parseBody(code), map, origin };
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    throw explain(source, new SourceError(error.message, origin(error.offset)));
  }
}

function withEnums(source: string): string {
  try {
    return keepConstEnums(source);
  } catch {
    return source; // it does not parse: the compiler says so in a moment
  }
}

function relocating<T>(origin: (offset: number) => number, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw error instanceof SourceError ? new SourceError(error.message, origin(error.offset)) : error;
  }
}

/** Whether a place is inside a comment of a text that is a session's code as it stands. */
function isInComment(source: string, offset: number): boolean {
  const stripped = stripTypes(source);
  let inside = false;
  try {
    parseBody(stripped.kind === "stripped" ? stripped.code : source, (start, end) => {
      inside ||= start < offset && offset < end;
    });
    return inside;
  } catch {
    return false;
  }
}
