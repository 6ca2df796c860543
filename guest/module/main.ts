/**
 * A worker of modules: reads runs on stdin, has V8 link and run them in this realm, and answers on stdout.
 *
 * Between runs it waits in a blocking read, so that no timer and no promise of a model goes on. A run is over as soon as its
 * value is there; what it left open goes on with the next run. When nothing is open and there is no value, there will never
 * be one: that is when Deno asks, by the event `beforeunload`, whether it may end (seen with 2.9.8).
 */

import { setImmediate } from "node:timers";
import { Encoder, NotJson, TooLarge } from "./encode.ts";
import { readFrame, readFrameAsync, Writer } from "../shared/frames.ts";
import { allow, ImportRefused, link, provide } from "./linker.ts";
import { explainNetwork } from "./network.ts";
import { beginOutput, endOutput, say } from "./output.ts";
import { call, keys, parse, slice, stringify, then, toWellFormed } from "./originals.ts";
import { thrown, toJson } from "./thrown.ts";
import { furnish } from "./world.ts";

/** Set by the build: React, as source text, and what of it can be imported. */
declare const REACT: [string, string[]];

const RUN = 0x52, ANSWER = 0x41, CLOSE = 0x5a;
const READY = 0x72, CALL = 0x63, PART = 0x70, DONE = 0x64;

// deno-lint-ignore no-explicit-any
type Any = any;

interface Run {
  number: number;
  kind: "module" | "script";
  code: string;
  head: string;
  inputs: Record<string, Any> | null;
  tools: string[] | null;
  limit: number;
  output: number;
  resolve: Record<string, string>;
  packages: boolean;
}

const REHEARSALS = 20;
const MAX_SPECIFIER = 2000;
const { exit } = Deno;
const { create, freeze } = Object;
const { defineProperty, deleteProperty } = Reflect;
const Later = Promise;
const decode = ((decoder) => decoder.decode.bind(decoder))(new TextDecoder());
const encode = ((encoder) => encoder.encode.bind(encoder))(new TextEncoder());
const writer = new Writer();

class Fault extends Error {
  constructor(readonly kind: string, message: string) {
    super(message);
  }
}

let stuck: (() => void) | null = null;
let serving = false;

globalThis.addEventListener("beforeunload", (event) => {
  event.preventDefault();
  if (!serving) {
    serving = true;
    serve();
  } else stuck?.();
});
globalThis.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  complain("Unhandled rejection", event.reason);
});
globalThis.addEventListener("error", (event) => {
  event.preventDefault();
  complain("Uncaught", event.error);
});

function complain(what: string, error: Any): void {
  const { name, message, frames } = thrown(error);
  const where = frames.length ? ` (${frames[0][1]}:${frames[0][2]})` : "";
  say(`${what}: ${name}: ${message}${where}`, true);
}

// ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────

interface Waiting {
  done: (value: Any) => void;
  failed: (error: Any) => void;
}

const open: Record<number, Waiting> = Object.create(null);
let calls = 0, waiting = 0;
let listening: Promise<void> | null = null;
/** What the run under way may call; between two runs nothing. Code may keep `tools` for longer than they are offered. */
let offered: Record<string, boolean> = create(null);

/** Reads answers as long as there are open calls: only then may something come. */
async function listen(): Promise<void> {
  while (waiting) {
    const frame = await readFrameAsync();
    if (frame === null) exit(0);
    if (frame!.kind === CLOSE) {
      for (const id in open) delete open[id];
      waiting = 0;
      break;
    }
    const { id, ok, value, name, message } = parse(decode(frame!.body));
    const { done, failed } = open[id];
    delete open[id];
    waiting -= 1;
    if (ok) done(value);
    else {
      const error = new Error(message);
      error.name = name;
      failed(error);
    }
  }
  listening = null;
}

let tools: Any;
/** It goes on working when code has frozen `globalThis` with it. */
const PLACE = {
  __proto__: null,
  configurable: true,
  get: () => tools,
  set: (value: Any) => {
    tools = value;
  },
} as PropertyDescriptor;

function offer(names: string[] | null, limit: number): void {
  offered = create(null);
  if (names === null) {
    tools = undefined;
    deleteProperty(globalThis, "tools"); // or it stays, as `undefined`
    return;
  }
  const made: Any = create(null);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    offered[name] = true;
    made[name] = (...args: Any[]) => {
      const json = new Encoder(limit).encode(args);
      return new Later((done, failed) => {
        if (!offered[name]) throw new Fault("threw", `the tool ${name} is not offered in this call`);
        const id = ++calls;
        open[id] = { done, failed };
        waiting += 1;
        writer.begin(CALL);
        writer.text(`{"id":${id},"name":${stringify(name)},"args":${json}}`);
        writer.send();
        listening ??= listen();
      });
    };
  }
  tools = freeze(made);
  if (defineProperty(globalThis, "tools", PLACE) || (globalThis as Any).tools === made) return;
  throw new Fault("pinned", "`tools` has no place: earlier code froze globalThis, or pinned `tools`. The next call starts afresh");
}

// ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Opens the last statement of a script that has no other. */
const RETURN = ";return(";

/** A script is the body of a function inside of one that has the inputs as its parameters: it may declare the same names. */
function wrapped({ kind, code, head, inputs }: Run): [string, number] {
  if (kind === "module") return [code, 0];
  const first = slice(head, -RETURN.length) === RETURN ? RETURN : "";
  const imports = slice(head, 0, head.length - first.length);
  const given = inputs ? keys(inputs) : [];
  let names = "";
  for (let i = 0; i < given.length; i++) names += `${given[i]},`;
  return [`${imports};export default async({${names}})=>await(async function(){${first}\n${code}\n})();`, -1];
}

function entry(namespace: Any): Any {
  if ("default" in namespace) {
    const value = namespace.default;
    if (typeof value === "function") return value;
    throw new Fault(
      "no_export",
      `the default export is ${value === null ? "null" : `a ${typeof value}`}, not a function: export default function run() { return … }`,
    );
  }
  if (typeof namespace.run === "function") return namespace.run;
  throw new Fault("no_export", "the module exports no function to call: export a default function, or one named run");
}

let parts = 0;

function part(json: string): void {
  parts += 1;
  writer.begin(PART);
  writer.text(json);
  writer.send();
}

async function value(run: Run): Promise<string> {
  const [source, offset] = wrapped(run);
  const module = await link(source, `module-${run.number}.ts`, offset);
  await module.evaluate();
  const { inputs } = run;
  const args = run.kind === "script" ? [inputs ?? {}] : inputs ? [inputs] : [];
  const given = await call(entry(module.namespace), undefined, args);
  return new Encoder(run.limit).encode(given, part);
}

function failure(error: Any): string {
  const kind = error instanceof NotJson
    ? "not_json"
    : error instanceof TooLarge
    ? "too_large"
    : error instanceof ImportRefused
    ? "import"
    : error instanceof Fault
    ? error.kind
    : "threw";
  const json = toJson(thrown(error, kind));
  if (!(error instanceof ImportRefused)) return json;
  return `${slice(json, 0, -1)},"specifier":${stringify(toWellFormed(slice(error.specifier, 0, MAX_SPECIFIER)))}}`;
}

async function perform(run: Run, rehearsal = false): Promise<void> {
  beginOutput(run.output);
  allow(run.resolve, run.packages);
  let head = `{"ok":true`, json = "";
  parts = 0;
  try {
    offer(run.tools, run.limit > 1 << 20 ? run.limit : 1 << 20);
    json = await new Later<string>((done, failed) => {
      then(value(run), done, failed);
      stuck = () => failed(new Fault("stuck", "the promise can never resolve: nothing that could settle it is left"));
    });
  } catch (error) {
    head = `{"ok":false,"error":${failure(error)}`;
  }
  stuck = null;
  await new Later((resolve) => void setImmediate(resolve)); // rejections that nobody handles are told after the microtasks
  endOutput();
  offered = create(null);
  writer.begin(DONE);
  writer.text(`${head},"open":${waiting},"parts":${parts}}`);
  writer.text(json); // apart: the host need not look for its end
  if (rehearsal) return;
  writer.send();
  if (listening) await listening; // the host closes what is open
}

async function serve(): Promise<void> {
  for (let frame = readFrame(); frame !== null; frame = readFrame()) {
    if (frame.kind === RUN) {
      try {
        await perform(parse(decode(frame.body)));
      } catch {
        exit(1); // code has replaced what we need: there will be no answer
      }
    } else if (frame.kind !== ANSWER && frame.kind !== CLOSE) break;
  }
  exit(0);
}

/** A few runs before there is a session: its first ones find compiled code. They leave nothing behind. */
async function rehearse(): Promise<void> {
  const rest = { head: "", inputs: null, tools: null, limit: 1 << 20, output: 0, resolve: {}, packages: false };
  for (let number = 1; number <= REHEARSALS; number++) {
    const code = `export default () => Array.from({length: 100}, (_, i) => ({i, n: ${number}, s: "a", b: [true, null]}))`;
    const run = stringify({ number, kind: "module", code, ...rest });
    await perform(parse(decode(encode(run))), true);
  }
}

/** What the program was started with is nothing to a model; it was read when Deno started. */
function forgetEnvironment(): void {
  try {
    for (const name of Object.keys(Deno.env.toObject())) Deno.env.delete(name);
  } catch {
    // without the permission there is nothing to see
  }
}

forgetEnvironment();
furnish();
if (Deno.permissions.querySync({ name: "net" }).state === "granted") explainNetwork();
provide(...REACT);
await rehearse();
// The host counts a worker in when it has said this.
writer.begin(READY);
writer.send();
