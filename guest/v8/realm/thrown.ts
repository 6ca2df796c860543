/** Thrown things as text. Nothing of the guest runs: names, messages and stacks are read as data only. */

import { type Any, exec, hasOwn, isObject, protoOf, RangeError, slice } from "./intrinsics.ts";
import { textOf } from "./encode.ts";
import { classOf, errorMessage, errorName, errorStack, ownData } from "./looking.ts";
import { say } from "./output.ts";
import { consoleLine } from "./streams.ts";

const MAX_TEXT = 16384, MAX_CAUSES = 3, MAX_LISTED = 3;

let inspector: (value: unknown) => unknown = () => "[value]";

/** Given by a bootstrap file: a value that is no error as one line. */
export function setInspector(given: (value: unknown) => unknown): void {
  inspector = given;
}

const cut = (text: string): string => (text.length > MAX_TEXT ? slice(text, 0, MAX_TEXT) : text);

function inspected(value: unknown): string {
  try {
    const text = inspector(value);
    if (typeof text === "string") return cut(text);
  } catch { // no stack left, say
    return isObject(value) ? "[object]" : "[value]";
  }
  return isObject(value) ? "[object]" : "[value]";
}

function messageText(value: unknown, causes: number): string {
  if (classOf(value) !== "error") return typeof value === "string" ? cut(value) : inspected(value);
  let text = cut(errorMessage(value));
  const listed = ownData(value, "errors");
  if (classOf(listed) === "array" && causes < MAX_CAUSES) {
    const n = (listed as Any).length;
    text += " [errors: ";
    for (let i = 0; i < n && i < MAX_LISTED; i++) text += (i ? "; " : "") + thrownText(ownData(listed, i), causes + 1);
    text += n > MAX_LISTED ? "; …]" : "]";
  }
  const cause = ownData(value, "cause");
  if (cause !== undefined) text += ` [cause: ${causes < MAX_CAUSES ? thrownText(cause, causes + 1) : "…"}]`;
  return text;
}

/** "TypeError: message [cause: ...]" */
export function thrownText(value: unknown, causes = 0): string {
  if (classOf(value) !== "error") return messageText(value, causes);
  const name = cut(errorName(value)), message = messageText(value, causes);
  return name === "" ? message : message === "" ? name : `${name}: ${message}`;
}

/** An exception that left a timer or a microtask: it does not fail the run. */
export function reportUncaught(error: unknown): void {
  consoleLine(2, "Uncaught " + thrownText(error));
}

const PLACE = /<run>:(\d{1,9})(?::(\d{1,9}))?/;
const NO_MEMORY =
  /^(?:Array buffer allocation failed|Invalid (?:array buffer|typed array|string) length|[\w.]+: Out of memory)$/;
const RangeErrorPrototype = RangeError.prototype;

/** What V8 throws where there is not that much memory (it ends the process where a heap is full). */
export function isOutOfMemory(error: unknown): boolean {
  if (classOf(error) !== "error" || protoOf(error as object) !== RangeErrorPrototype) return false;
  const message = ownData(error, "message");
  return typeof message === "string" && exec(NO_MEMORY, message) !== null;
}

export function sayFail(kind: string, name: string, message: string, stack: string): void {
  const e = { flags: 0 }, place = exec(PLACE, stack);
  const line = place === null ? "0" : place[1],
    column = place !== null && hasOwn(place, "2") && place[2] !== undefined ? place[2] : "0";
  const texts = `"name":${textOf(e, name)},"message":${textOf(e, message)},"stack":${textOf(e, stack)}`;
  say(`{"t":"fail","f":${e.flags},"kind":"${kind}",${texts},"line":${+line},"col":${+column}}`);
}

/** `fail` for a thrown value. */
export function sayThrown(value: unknown): void {
  if (classOf(value) === "error") {
    return sayFail("throw", cut(errorName(value)), messageText(value, 0), errorStack(value));
  }
  const head = typeof value === "string" ? "" : "thrown value: ";
  sayFail("throw", "Error", head + messageText(value, 0), isObject(value) ? errorStack(value) : "");
}
