/** Where something is in a source: lines and columns as a person counts them. */

/** 1-based line and column. Columns count characters (code points), so that they index a Python string; a tab is one. */
export interface Position {
  line: number;
  column: number;
}

const LINE_END = /\r\n|[\n\r\u2028\u2029]/g;

/** The position of a UTF-16 offset. ECMAScript's line terminators, which is what the engines count at run time too. */
export function positionAt(source: string, offset: number): Position {
  const end = Math.max(0, Math.min(offset, source.length));
  let line = 1;
  let start = 0;
  for (const match of source.slice(0, end).matchAll(LINE_END)) {
    line += 1;
    start = match.index + match[0].length;
  }
  return { line, column: [...source.slice(start, end)].length + 1 };
}

/** The offset of a 0-based line and UTF-16 column, clamped to the source. */
export function offsetAt(source: string, line: number, column: number): number {
  let start = 0;
  for (const match of source.matchAll(LINE_END)) {
    if (line-- === 0) break;
    start = match.index + match[0].length;
  }
  return Math.min(start + column, source.length);
}

/** The 0-based line and UTF-16 column of an offset. */
export function lineAndUnit(source: string, offset: number): [number, number] {
  const before = [...source.slice(0, offset).matchAll(LINE_END)];
  const last = before.at(-1);
  return [before.length, offset - (last ? last.index + last[0].length : 0)];
}

/** What is wrong with a source, and the UTF-16 offset where. */
export class SourceError extends Error {
  constructor(message: string, readonly offset: number) {
    super(message);
  }
}
