/**
 * A session's worker: reads requests on stdin, has a realm of its own do them, and answers on stdout. One process, one session.
 *
 * Guest code runs in a context that has its own builtins, its own queue of microtasks and nothing of this realm. A request is
 * a call of the realm's program and then, as often as that asks for it, a turn of its promises: evaluating a script that does
 * nothing drains the queue to the end. (Calling into a context does not; seen with Deno 2.9.8.)
 */

import { setImmediate } from "node:timers";
import vm from "node:vm";
import { type Frame, readFrame, Writer } from "../shared/frames.ts";
import { Bell } from "./bell.ts";
import { outsideOf } from "./outside.ts";
import { Malformed, Reader } from "./requests.ts";

/** Set by the build: name and source of the realm's program, then of the bootstrap files in order. */
declare const SOURCES: [string, string][];

const CONFIGURE = 0x43,
  STEP = 0x53,
  BATCH = 0x42,
  REPLAY = 0x56,
  REPLY = 0x72,
  PART = 0x76,
  WAITS = 0x77,
  REFUSED = 0x21;
const OK = 0;
const ANSWER = 0x41;
const DONE = 0, DRAIN = 1, TURN = 2, TELL = 3;
const PART_BYTES = 1 << 13;
const OPENINGS = 4, WARM_RUNS = 120, PLAIN_RUNS = 500;
const REHEARSED = "__gloveport_tool";
const PROMPT_LINES = 8, PATIENCE = 1;
const SPOKEN = /^\{"t":"(?:call|done|fail)"/;

// deno-lint-ignore no-explicit-any
type Any = any;

// An ordinary global object: one that a sandbox object stands behind makes every global a call into the host, 80 times as slow.
const context = vm.createContext(vm.constants.DONT_CONTEXTIFY as Any, {
  microtaskMode: "afterEvaluate",
  codeGeneration: { strings: true, wasm: false },
});
const nothing = new vm.Script("0", { filename: "<boot/turn>" });
const drain = (): void => void nothing.runInContext(context);
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function boot(): Any {
  const [program, ...files] = SOURCES;
  const inside = (name: string, source: string) =>
    new vm.Script(source, { filename: `<boot/${name}>` }).runInContext(context);
  const realm = inside(...program)(outsideOf(context, logged, waits));
  for (const [name, source] of files) {
    realm.boot(inside(name, source));
    drain();
  }
  realm.booted();
  return realm;
}

const early = new Writer();
/** Lines of this step that went out at once; Infinity: nothing goes out before the end. */
let lines = Infinity, sent = 0;

/** A worker that computes too long is killed: what it printed before has to be out by then. Many lines go out together. */
function logged(): void {
  if (lines === Infinity) return;
  if (lines++ >= PROMPT_LINES && performance.now() - sent < PATIENCE) return;
  early.begin(PART);
  const messages = realm.messages(true);
  for (let i = 0; i < messages.n; i++) early.text(messages[i]);
  early.send();
  sent = performance.now();
}

function waits(): void {
  early.begin(WAITS);
  early.u32(realm.reads());
  early.send();
}

const realm = boot();
globalThis.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  realm.rejected(event.promise, event.reason);
});

let configured = false;

/** Begins a request. */
function begin(request: Reader): void {
  const op = String.fromCharCode(request.u8());
  if (op === "O") {
    const options = request.text();
    request.end();
    if (configured) throw new Malformed();
    configured = true;
    return realm.open(options);
  }
  if (!configured) throw new Malformed();
  if (op === "R" || op === "P") {
    request.u32();
    const cap = request.u32(), source = request.text();
    request.end();
    if (realm.isActive()) throw new Malformed();
    return op === "R" ? realm.start(cap, source) : realm.startPlain(cap, source);
  }
  if (op === "A") {
    const ms = request.milliseconds(), call = request.u32(), ok = request.u8() === 1, json = request.text();
    request.end();
    if (!realm.isActive() || !realm.isOpen(call)) throw new Malformed();
    return realm.advance(ms, call, ok, json);
  }
  if (op === "T") {
    const ms = request.milliseconds();
    request.end();
    if (!realm.isActive()) throw new Malformed();
    return realm.advance(ms, 0, false, "");
  }
  if (op === "B") {
    const name = request.text();
    request.end();
    if (realm.isActive()) throw new Malformed();
    return realm.bind(name);
  }
  if (op === "E") {
    const seed = request.u64();
    request.end();
    return realm.reseed(String(seed));
  }
  throw new Malformed();
}

const writer = new Writer();
let began = 0;

/** Does one request to its end. */
async function perform(request: Reader): Promise<number> {
  const answers = request.peek() === ANSWER;
  begin(request);
  // Promises can go on only after a run has begun: an answer comes to one that waits.
  let next = answers ? realm.proceed() : DRAIN;
  for (; next !== DONE; next = realm.proceed()) {
    if (next !== TELL) drain();
    if (next !== DRAIN) await turn();
  }
  return realm.status();
}

function beginReply(): void {
  writer.begin(REPLY);
  writer.byte(OK);
  writer.u64(0);
  writer.u32(0);
}

function endReply(status: number): void {
  writer.patchReply(status, Math.round((performance.now() - began) * 1e6), realm.reads());
  writer.send();
}

/** Everything that was said goes out; for a replay only what its outcome is made of. */
function takeMessages(only: RegExp | null): void {
  const messages = realm.messages();
  for (let i = 0; i < messages.n; i++) if (only === null || only.test(messages[i])) writer.text(messages[i]);
}

async function step(body: Uint8Array): Promise<void> {
  beginReply();
  lines = 0;
  const status = await perform(new Reader(body));
  takeMessages(null);
  endReply(status);
}

async function batch(body: Uint8Array): Promise<void> {
  const requests = new Reader(body);
  beginReply();
  lines = 0;
  let status = OK;
  for (let left = requests.u32(); left > 0 && status === OK; left--) {
    requests.next();
    status = await perform(requests);
    takeMessages(null);
  }
  endReply(status);
}

/** The same without what a replay does not look at, and in parts: the host looks at one while the next is made. */
async function replay(body: Uint8Array): Promise<void> {
  lines = Infinity;
  realm.retrace(true, settledWell(body));
  const requests = new Reader(body, true);
  let status = OK;
  writer.begin(PART);
  for (let left = requests.u32(); left > 0 && status === OK; left--) {
    requests.next();
    status = await perform(requests);
    takeMessages(SPOKEN);
    if (writer.length > PART_BYTES) {
      writer.send();
      writer.begin(PART);
    }
  }
  realm.retrace(false, 0);
  writer.send();
  beginReply();
  endReply(status);
}

/** The highest call up to which these requests answer every one, and with success: of those, nobody will ask where they were made. */
function settledWell(body: Uint8Array): number {
  const requests = new Reader(body), well = new Set<number>();
  for (let left = requests.u32(); left > 0; left--) {
    requests.next();
    const op = requests.u8();
    if (op === ANSWER) {
      requests.milliseconds();
      const call = requests.u32();
      if (requests.u8() === 1) well.add(call);
    }
    requests.skip();
  }
  let last = 0;
  while (well.has(last + 1)) last++;
  return last;
}

const answers: Record<number, (body: Uint8Array) => Promise<void>> = { [STEP]: step, [BATCH]: batch, [REPLAY]: replay };

const bell = new Bell(Deno.args[0] ?? "");

function next(): Frame | null {
  bell.listen();
  const frame = readFrame();
  bell.heard();
  return frame;
}

async function serve(): Promise<void> {
  for (let frame = next(); frame !== null; frame = next()) {
    if (frame.kind === CONFIGURE) continue; // the limits are the process's own
    began = performance.now();
    try {
      const answer = answers[frame.kind];
      if (answer === undefined) throw new Malformed();
      await answer(frame.body);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      writer.begin(REFUSED);
      writer.send();
    }
  }
}

/** A session that nobody hears, before there is one: the first requests of a real one find compiled code. It leaves nothing behind. */
async function warmUp(): Promise<void> {
  const source = `for (const i of [1, 2, 3, 4, 5, 6, 7, 8]) await ${REHEARSED}({i, s: "a"}, i); return [1, {}, "a"]`;
  const clock = { clock: 0, seed: "1", frozen: false, bootstrap: null };
  const options = JSON.stringify({ ...clock, namespace: null, tools: [REHEARSED], catalog: null });
  writer.mute = true;
  for (let i = 0; i < OPENINGS; i++) {
    configured = false;
    await replay(encodeMany([encodeOpen(options)]));
  }
  for (let i = 0, id = 1; i < WARM_RUNS; i++) {
    const requests = [encodeRun(source)];
    for (let k = 0; k < 8; k++) requests.push(encodeAnswer(id++));
    if (i % 2) await replay(encodeMany(requests));
    else for (const request of requests) await step(request);
  }
  for (let i = 0; i < PLAIN_RUNS; i++) await step(encodePlain(`return ${i} + 1`));
  writer.mute = false;
  configured = false;
  realm.rehearsed(REHEARSED);
}

function encodeMany(requests: Uint8Array[]): Uint8Array {
  early.begin(0);
  early.u32(requests.length);
  for (const request of requests) early.part(request);
  return early.body();
}

function encodeOpen(options: string): Uint8Array {
  early.begin(0);
  early.byte(0x4F);
  early.text(options);
  return early.body();
}

function encodeRun(source: string): Uint8Array {
  early.begin(0);
  early.byte(0x52);
  early.u32(0);
  early.u32(4096);
  early.text(`(async($)=>{$({__proto__:null});\n${source}\n})`);
  return early.body();
}

function encodePlain(source: string): Uint8Array {
  early.begin(0);
  early.byte(0x50);
  early.u32(0);
  early.u32(4096);
  early.text(source);
  return early.body();
}

function encodeAnswer(id: number): Uint8Array {
  early.begin(0);
  early.byte(ANSWER);
  early.u64(0); // 0.0
  early.u32(id);
  early.byte(1);
  early.text('{"i":1,"s":"a"}');
  return early.body();
}

await warmUp();
// The host counts a worker in when it has said this.
writer.begin(REPLY);
writer.send();
await serve();
