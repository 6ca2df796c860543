/** TypeScript to JavaScript, with the compiler that is part of Deno (seen with 2.9). */

import { lineAndUnit, offsetAt, SourceError } from "./position.ts";

const { stripTypeScriptTypes } = process.getBuiltinModule("node:module"); // the program is evaluated as a text, which imports nothing

/** Segments per generated line: `[column, source line, source column]`, 0-based, columns in UTF-16 units. */
export type SourceMap = Array<Array<[number, number, number]>>;

export type Stripped =
  | { kind: "stripped"; code: string }
  /** Syntax with run-time meaning: `enum`, `namespace`, parameter properties, `<T>value`. */
  | { kind: "needs transform" }
  | { kind: "syntax error" };

/** Removes types, leaving blanks: every line and column stays. */
export function stripTypes(source: string): Stripped {
  try {
    return { kind: "stripped", code: restoreSurrogates(source, stripTypeScriptTypes(source, { mode: "strip" })) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { kind: error.message.includes("[InvalidSyntax]") ? "syntax error" : "needs transform" };
  }
}

/** The stripper replaces a lone surrogate by U+FFFD; it keeps all offsets, so that each can be put back. */
function restoreSurrogates(source: string, code: string): string {
  if (source.isWellFormed()) return code;
  const units = [...Array(source.length).keys()].filter((at) => code[at] === "\ufffd" && source[at] !== "\ufffd");
  const parts: string[] = [];
  let from = 0;
  for (const at of units) {
    parts.push(code.slice(from, at), source[at]!);
    from = at + 1;
  }
  return parts.join("") + code.slice(from);
}

/** Compiles TypeScript that has run-time meaning. Lines move, hence the map. Null: it does not compile. */
export function transformTypes(source: string): { code: string; map: SourceMap } | null {
  let output: string;
  try {
    output = stripTypeScriptTypes(escapeSurrogates(source), { mode: "transform", sourceMap: true });
  } catch {
    return null;
  }
  const mark = "\n//# sourceMappingURL=data:application/json;base64,";
  const end = output.lastIndexOf(mark);
  const bytes = Uint8Array.fromBase64(output.slice(end + mark.length));
  const { mappings } = JSON.parse(new TextDecoder().decode(bytes)) as { mappings: string };
  return { code: output.slice(0, end), map: decodeMappings(mappings) };
}

/** What the compiler itself says of a source that it cannot compile; null when it can, or says nothing useful. */
export function compilerError(source: string): SourceError | null {
  try {
    stripTypeScriptTypes(source, { mode: "transform" });
    return null;
  } catch (error) {
    // "SyntaxError: what\n  |\n1 | the line\n  |  ~~\n    at file:///stripTypeScriptTypes.ts:1:9"
    const said = /^(?:SyntaxError: )?(.*)$/m.exec((error as Error).message)?.[1];
    const place = /:(\d+):(\d+)\s*$/.exec((error as Error).message);
    if (!said || !place) return null;
    return new SourceError(said, offsetAt(source, Number(place[1]) - 1, Number(place[2]) - 1));
  }
}

function escapeSurrogates(source: string): string {
  if (source.isWellFormed()) return source;
  return source.replace(/\p{Surrogate}/gu, (unit) => `\\u${unit.charCodeAt(0).toString(16)}`);
}

/** The offset in `source` of what the transform made the offset in `code` from. */
export function originalOffset(map: SourceMap, code: string, source: string, offset: number): number {
  const [line, column] = lineAndUnit(code, offset);
  for (let at = Math.min(line, map.length - 1); at >= 0; at--) {
    const segment = map[at]!.findLast(([start]) => at < line || start <= column);
    if (segment) return offsetAt(source, segment[1], segment[2]);
  }
  return 0;
}

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The `mappings` of a source map, version 3 (ECMA-426), of one source. */
export function decodeMappings(mappings: string): SourceMap {
  let line = 0;
  let column = 0;
  return mappings.split(";").map((generated) => {
    let at = 0;
    const segments: Array<[number, number, number]> = [];
    for (const segment of generated.split(",")) {
      const fields = decodeSegment(segment);
      if (fields.length < 4) continue;
      at += fields[0]!;
      line += fields[2]!;
      column += fields[3]!;
      segments.push([at, line, column]);
    }
    return segments;
  });
}

function decodeSegment(segment: string): number[] {
  const fields: number[] = [];
  let value = 0;
  let shift = 0;
  for (const digit of segment) {
    const bits = BASE64.indexOf(digit);
    value |= (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    fields.push(value & 1 ? -(value >>> 1) : value >>> 1);
    value = shift = 0;
  }
  return fields;
}
