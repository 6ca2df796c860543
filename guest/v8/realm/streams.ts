/**
 * The two console streams: the first half of a run's cap goes out as `log` messages; what comes later is kept, as far as the last
 * half of the cap reaches, and goes out as one `tail` message when the run ends. Sizes are bytes of UTF-8.
 */

import { type Any, charCodeAt, indexOf, type List, list, push, slice } from "./intrinsics.ts";
import { textOf } from "./encode.ts";
import { outside } from "./outside.ts";
import { say } from "./output.ts";

interface Stream {
  half: number;
  /** Bytes of the head used. */
  head: number;
  /** The head is full: everything goes to the end. */
  closed: boolean;
  kept: List<string>;
  first: number;
  used: number;
  droppedLines: number;
  droppedBytes: number;
}

const streams: Record<number, Stream> = { __proto__: null } as Any;
let indentation = 0;

export function resetConsole(cap: number): void {
  for (let i = 1; i <= 2; i++) {
    streams[i] = {
      __proto__: null,
      half: cap >>> 1,
      head: 0,
      closed: false,
      kept: list(),
      first: 0,
      used: 0,
      droppedLines: 0,
      droppedBytes: 0,
    } as Any;
  }
  indentation = 0;
}

export function indent(change: number): number {
  const next = indentation + change;
  return indentation = next < 0 ? 0 : next > 64 ? 64 : next;
}

function sayLog(s: number, text: string): void {
  const e = { flags: 0 }, json = textOf(e, text);
  say(`{"t":"log","f":${e.flags},"s":${s},"m":${json}}`);
  outside.logged();
}

/** How many code units of `text` fit into `room` bytes, whole characters only. */
function unitsWithin(text: string, room: number): number {
  let used = 0, i = 0;
  while (i < text.length) {
    const unit = charCodeAt(text, i);
    const next = i + 1 < text.length ? charCodeAt(text, i + 1) : 0;
    const pair = (unit & 0xFC00) === 0xD800 && (next & 0xFC00) === 0xDC00;
    used += unit < 0x80 ? 1 : unit < 0x800 ? 2 : pair ? 4 : 3;
    if (used > room) break;
    i += pair ? 2 : 1;
  }
  return i;
}

function newlines(text: string): number {
  let count = 0;
  for (let at = indexOf(text, "\n"); at >= 0; at = indexOf(text, "\n", at + 1)) count++;
  return count;
}

function dropLine(st: Stream): void {
  const line = st.kept[st.first], size = outside.utf8Length(line) + 1;
  delete st.kept[st.first++];
  st.used -= size;
  st.droppedLines++;
  st.droppedBytes += size;
}

function keepEnd(st: Stream, text: string): void {
  let size = outside.utf8Length(text);
  if (st.half <= 8) { // a cap of nearly nothing: only count
    st.droppedLines += newlines(text) + 1;
    st.droppedBytes += size + 1;
    return;
  }
  if (size + 1 > st.half) { // keep its end, from a character boundary on
    let from = unitsWithin(text, size + 1 - st.half);
    if (outside.utf8Length(slice(text, 0, from)) < size + 1 - st.half) {
      from += unitsWithin(slice(text, from, from + 2), 4);
    }
    const cut = slice(text, 0, from);
    st.droppedLines += newlines(cut);
    st.droppedBytes += outside.utf8Length(cut);
    text = slice(text, from);
    size = outside.utf8Length(text);
  }
  while (st.used + size + 1 > st.half) dropLine(st);
  for (let start = 0; start <= text.length;) {
    const end = indexOf(text, "\n", start), line = end < 0 ? slice(text, start) : slice(text, start, end);
    push(st.kept, line);
    if (end < 0) break;
    start = end + 1;
  }
  st.used += size + 1;
}

/** One console call's text, without the final newline. */
export function consoleLine(s: number, text: string): void {
  const st = streams[s], size = outside.utf8Length(text);
  if (!st.closed && size < st.half - st.head) {
    st.head += size + 1;
    sayLog(s, text);
    return;
  }
  if (!st.closed && size + 1 > st.half && st.half - st.head > 64) { // will be cut anyway: show its beginning too
    const end = unitsWithin(text, st.half - st.head - 1);
    sayLog(s, slice(text, 0, end));
    text = slice(text, end);
  }
  st.closed = true;
  keepEnd(st, text);
}

export function flushConsole(): void {
  for (let s = 1; s <= 2; s++) {
    const st = streams[s];
    if (!st.used && !st.droppedLines && !st.droppedBytes) continue;
    let text = "";
    for (let i = st.first; i < st.kept.n; i++) text += (i > st.first ? "\n" : "") + st.kept[i];
    const e = { flags: 0 }, json = textOf(e, text);
    say(`{"t":"tail","f":${e.flags},"s":${s},"m":${json},"lines":${st.droppedLines},"bytes":${st.droppedBytes}}`);
    st.kept = list();
    st.first =
      st.used =
      st.droppedLines =
      st.droppedBytes =
        0;
  }
}
