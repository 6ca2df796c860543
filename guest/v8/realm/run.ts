/** Runs: evaluate, say what came of it. The host's realm drives: it lets promises go on between two calls of `proceed`. */

import {
  type Any,
  AsyncFunction,
  construct,
  defineProperty,
  exec,
  hasOwn,
  isArray,
  isObject,
  keys,
  type List,
  list,
  push,
  TypeError,
} from "./intrinsics.ts";
import { bindTool, forgetPlaces, forgetTool, installTools, isOpen, openCalls, session, settleCall } from "./calls.ts";
import { cancelTimers, clock, fireNext, isDue, moveTo, nextTimer, setClock, timersLeft } from "./clock.ts";
import { decode } from "./decode.ts";
import { encodeValues, one } from "./encode.ts";
import { outside } from "./outside.ts";
import { say } from "./output.ts";
import { seed } from "./random.ts";
import { PLAIN_MARK } from "./stack.ts";
import { consoleLine, flushConsole, resetConsole } from "./streams.ts";
import { isOutOfMemory, sayFail, sayThrown, thrownText } from "./thrown.ts";

/** What the host's realm does next: nothing; let promises go on; the same, and tell of rejections that nobody handles; only that. */
export const DONE = 0, DRAIN = 1, TURN = 2, TELL = 3;
const OK = 0, OUT_OF_MEMORY = 3;
const MAX_UNHANDLED_LINES = 20;

let reserved: Any = { __proto__: null };
let promise: Any;
let status = OK;
/** The time up to which timers fire before anything else happens. */
let until = 0;
/** What is to be done when those have fired: settling the call of the request. */
let settle: (() => void) | null = null;
/** What ends the run, once everything that it left behind has been put away. */
let ending: (() => void) | null = null;
let bootstrapping = false;
let unhandled: List<unknown> = list();

export const statusOfStep = (): number => status;

export function reserveNames(names: List<string>): void {
  for (let i = 0; i < names.n; i++) reserved[names[i]] = true;
}

/** What was opened so far was a rehearsal. */
export function rehearsed(tool: string): void {
  delete reserved[tool];
  forgetTool(tool);
}

/** `O` */
export function open(json: string): void {
  const options: Any = decode(json);
  setClock(options.clock, options.frozen === true);
  seed(options.seed);
  status = OK;
  reserveNames(installTools(options.namespace, options.tools, options.catalog));
  if (typeof options.bootstrap !== "string") return;
  resetConsole(65536);
  bootstrapping = true;
  const failure = evaluated(options.bootstrap, "<bootstrap>", () => {});
  resetConsole(65536);
  ending = failure ?? (() => {});
}

/** Evaluates a source and gives its value to `take`; gives what says why it did not work. */
function evaluated(source: string, name: string, take: (value: unknown) => void): (() => void) | null {
  let thrown: (() => void) | null = null;
  const failure = outside.evaluate(source, name, (worked, value) => {
    if (!worked) {
      thrown = failureOf(value);
      return;
    }
    try {
      take(value);
    } catch (error) {
      thrown = failureOf(error);
    }
  });
  return failure === null ? thrown : () => sayFail("throw", "SyntaxError", failure, "");
}

function failureOf(error: unknown): () => void {
  return () => {
    if (isOutOfMemory(error)) status = OUT_OF_MEMORY;
    sayThrown(error);
  };
}

/** `({__proto__: null, x: [getter, setter], ...})`: the run's top-level bindings become accessors of the global object, so that a
 * later run sees the same live variables. Builtins and tools cannot be shadowed beyond the run. */
function publish(bindings: Any): void {
  if (typeof bindings !== "object" || bindings === null || outside.isProxy(bindings)) {
    throw new TypeError("not the bindings of a run");
  }
  const names = keys(bindings);
  for (let i = 0; i < names.length; i++) {
    const pair = bindings[names[i]];
    if (hasOwn(reserved, names[i]) || !isArray(pair)) continue;
    defineProperty(globalThis, names[i], {
      __proto__: null,
      get: pair[0],
      set: pair[1],
      configurable: true,
      enumerable: false,
    } as Any);
  }
}

function begin(cap: number): void {
  session.active = true;
  status = OK;
  promise = undefined;
  clock.forgetReads();
  resetConsole(cap);
  until = 0;
}

function fail(failure: (() => void) | null): void {
  if (failure === null) return;
  session.active = false;
  ending = failure;
}

/** `R` */
export function start(cap: number, source: string): void {
  begin(cap);
  fail(evaluated(source, "<run>", (f) => {
    promise = (f as Any)((bindings: unknown) => publish(bindings));
  }));
}

/** What only a compiler makes right: declarations, which later runs see; what is otherwise in a function than in a script. */
const DECLARES =
  /\b(?:let|const|var|function|class|using|import|export|arguments|target|eval)\b|__gloveport|sourceURL|use strict|<!--|-->|^#!/;
const NOT_PLAIN = '{"t":"fail","f":0,"kind":"compile","name":"","message":""}';

/** `P`: plain JavaScript that declares nothing needs no compiler. That it is the body of one function, and no more, is what the
 * constructor of async functions insists on. */
export function startPlain(cap: number, source: string): void {
  status = OK;
  let body: unknown;
  try {
    if (exec(DECLARES, source) === null) body = construct(AsyncFunction, [source + PLAIN_MARK]);
  } catch { // the compiler says what is wrong
    body = undefined;
  }
  if (body === undefined) return say(NOT_PLAIN);
  begin(cap);
  try {
    promise = (body as Any)();
  } catch (error) {
    fail(failureOf(error));
  }
}

export const isActive = (): boolean => session.active;
export { isOpen };

/** `A` and `T` */
export function advance(ms: number, call: number, ok: boolean, json: string): void {
  status = OK;
  until = clock.timers() + ms;
  settle = call === 0 ? null : () => settleCall(call, ok, json);
}

export function proceed(): number {
  if (ending !== null) return finish();
  if (isDue(until)) {
    fireNext();
    return DRAIN;
  }
  moveTo(until);
  if (settle !== null) {
    const then = settle;
    settle = null;
    then();
    return DRAIN;
  }
  if (!session.active) return DONE;
  if (openCalls() > 0) return idle();
  const state = outside.promiseState(promise);
  if (state !== 0) return settled(state === 1);
  if (timersLeft() === 0) {
    const text = "the code waits for a promise that nothing can settle: no tool call is open and no timer is set";
    return close(() => sayFail("stuck", "Error", text, ""));
  }
  fireNext();
  return DRAIN;
}

let retracing = false;

/** In a replay nobody reads what a run prints and waits for, or asks where the calls up to `settled` were made. */
export function retrace(on: boolean, settled: number): void {
  retracing = on;
  forgetPlaces(settled);
}

function idle(): number {
  if (retracing) return DONE;
  const timer = timersLeft() ? "" + (nextTimer() > 0 ? nextTimer() : 0) : "null";
  say(`{"t":"idle","f":0,"calls":${openCalls()},"timer":${timer},"now":${clock.timers()}}`);
  return DONE;
}

function close(then: () => void): number {
  session.active = false;
  ending = then;
  return TURN;
}

function settled(fulfilled: boolean): number {
  let value: unknown;
  outside.promiseResult(promise, (result) => {
    value = result;
  });
  if (!fulfilled) return close(failureOf(value));
  session.active = false; // getters of the result run now: they cannot call tools
  try {
    if (value === undefined) return close(() => say('{"t":"done","f":0}'));
    const encoded = encodeValues(one(value), true, "", "return plain data");
    if (encoded.refusal !== null) {
      const { refusal } = encoded;
      return close(() => sayFail("value", "TypeError", refusal, ""));
    }
    close(() => {
      try {
        say(`{"t":"done","f":${encoded.flags},"v":${encoded.text}}`);
      } catch {
        sayFail("value", "TypeError", "a result of more than 63 MiB cannot leave the sandbox: return less", "");
      }
    });
    return isObject(value) ? TURN : TELL; // getters may have begun something
  } catch (error) {
    return close(failureOf(error));
  }
}

/** A promise was rejected and nobody handles it. */
export function rejected(of: unknown, reason: unknown): void {
  if (of !== promise) push(unhandled, reason);
}

/** Whatever the run left behind; after this the session is ready for the next one. */
function finish(): number {
  const end = ending!;
  ending = null;
  cancelTimers();
  for (let i = 0; i < unhandled.n && i < MAX_UNHANDLED_LINES; i++) {
    consoleLine(2, "Uncaught (in promise) " + thrownText(unhandled[i]));
  }
  if (unhandled.n > MAX_UNHANDLED_LINES) {
    consoleLine(2, `... and ${unhandled.n - MAX_UNHANDLED_LINES} more rejected promises`);
  }
  unhandled = list();
  if (!bootstrapping) flushConsole();
  bootstrapping = false;
  resetConsole(0);
  promise = undefined;
  end();
  return DONE;
}

/** `B` */
export function bind(name: string): void {
  const made: List<string> = list();
  try {
    bindTool(name, made);
    status = OK;
  } catch { // the guest has frozen its global object, say
    status = OUT_OF_MEMORY;
  }
  reserveNames(made);
}

/** `E` */
export function reseed(text: string): void {
  status = OK;
  seed(text);
}
