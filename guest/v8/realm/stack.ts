/**
 * Stacks say where guest code was and nothing else. V8 hands the frames of a stack to `Error.prepareStackTrace` of the global
 * `Error`, as objects of the *host's* realm, from which code would reach that realm's `Function`. So neither of the two can be
 * replaced here: what the guest assigns is ignored, and no frame ever reaches it. (Deno 2.9.8 looks both up at every error.)
 */

import { type Any, apply, defineProperty, Error, exec, protoOf } from "./intrinsics.ts";
import { errorStack } from "./looking.ts";

type Read = (frame: Any) => Any;
let nameOf: Read, fileOf: Read, urlOf: Read, lineOf: Read, columnOf: Read, isEval: Read, isNative: Read, isAsync: Read;

const GUEST = /^<(?:run|bootstrap)>$/;
const PLAIN = "<plain>", LINES_BEFORE = 2;

/** The end of a source that goes to the constructor of functions, which puts two lines before it. */
export const PLAIN_MARK = `\n//# sourceURL=${PLAIN}`;

function describe(frame: Any): string {
  const file = fileOf(frame), evaluated = isEval(frame), plain = evaluated && urlOf(frame) === PLAIN;
  let name = nameOf(frame);
  if (typeof name !== "string" || name === "" || (plain && name === "eval")) name = "<anonymous>";
  const head = `    at ${isAsync(frame) ? "async " : ""}${name}`;
  if (isNative(frame)) return `${head} (native)\n`;
  const place = plain ? "<run>" : typeof file === "string" && exec(GUEST, file) !== null ? file : evaluated ? "<eval>" : "";
  const line = +lineOf(frame) - (plain ? LINES_BEFORE : 0);
  return place === "" ? "" : `${head} (${place}:${line}:${+columnOf(frame)})\n`;
}

function prepare(_error: Any, frames: Any): string {
  let text = "";
  try {
    for (let i = 0; i < frames.length; i++) text += describe(frames[i]);
  } catch { // no frames of the engine's, or no stack left
    return "";
  }
  return text;
}

/** Takes the readers from a frame, which is the only time one is looked at by name. */
function takeReaders(frame: Any): void {
  const proto = protoOf(frame);
  const reader = (name: string): Read => {
    const read = proto[name];
    return (of) => apply(read, of, []);
  };
  nameOf = reader("getFunctionName");
  fileOf = reader("getFileName");
  urlOf = reader("getScriptNameOrSourceURL");
  lineOf = reader("getLineNumber");
  columnOf = reader("getColumnNumber");
  isEval = reader("isEval");
  isNative = reader("isNative");
  isAsync = reader("isAsync");
}

export function hideStacks(): void {
  (Error as Any).prepareStackTrace = (_: Any, frames: Any) => (takeReaders(frames[0]), "");
  if (new Error().stack !== "" || nameOf === undefined) throw new Error("stacks cannot be read");
  const formatter = { prepareStackTrace: (error: Any, frames: Any) => prepare(error, frames) }.prepareStackTrace;
  defineProperty(Error, "prepareStackTrace", {
    __proto__: null,
    get: () => formatter,
    set: () => {},
    configurable: false,
    enumerable: false,
  } as Any);
  defineProperty(
    globalThis,
    "Error",
    { __proto__: null, value: Error, writable: false, configurable: false, enumerable: false } as Any,
  );
}

/** Notes where the guest is. Its text is made only when it is asked for. (`Error.captureStackTrace` takes four times as long; V8 15.) */
export const here = (): object => new Error();

const FIRST = /^[^\n]*\((<[a-z]+>:\d+:\d+)\)$/m;

/** "    at save (<run>:3:9)\n"; nothing when the place is not known. */
export function stackOfCall(holder: object, name: string): string | undefined {
  const found = exec(FIRST, errorStack(holder));
  return found === null ? undefined : `    at ${name} (${found[1]})\n`;
}
