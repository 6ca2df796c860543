/** What a module finds around it: standard streams that are the run's, not the process's. */

import { Readable, Writable } from "node:stream";
import fs from "node:fs";
import process from "node:process";
import { say, stderr, stdout } from "./output.ts";
import { call, defineProperty } from "./originals.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

const decoder = () => new TextDecoder("utf-8");
const internal = (Deno as Any)[(Deno as Any).internal];

/** `Deno.stdout` and `Deno.stderr`. */
function sink(stream: typeof stdout): Any {
  const text = decoder();
  const write = (bytes: Uint8Array): number => {
    stream.write(text.decode(bytes, { stream: true }));
    return bytes.length;
  };
  return {
    writeSync: write,
    write: (bytes: Uint8Array) => Promise.resolve(write(bytes)),
    isTerminal: () => false,
    close() {},
    get writable() {
      return new WritableStream({ write: (bytes: Uint8Array) => void write(bytes) });
    },
    [Symbol.dispose]() {},
  };
}

/** `Deno.stdin`: at its end. */
const source: Any = {
  readSync: () => null,
  read: () => Promise.resolve(null),
  isTerminal: () => false,
  setRaw() {},
  close() {},
  get readable() {
    return new ReadableStream({ start: (controller) => controller.close() });
  },
  [Symbol.dispose]() {},
};

function nodeSink(stream: typeof stdout, fd: number): Any {
  const made: Any = new Writable({
    decodeStrings: false,
    write(chunk: Any, _encoding: Any, done: () => void) {
      stream.write(typeof chunk === "string" ? chunk : decoder().decode(chunk));
      done();
    },
  });
  made.fd = fd;
  made.isTTY = false;
  return made;
}

function lazily(target: object, name: string, make: () => Any): void {
  let made: Any;
  defineProperty(target, name, {
    configurable: true,
    enumerable: true,
    get: () => made ??= make(),
    set: (value) => made = value,
  });
}

/** `node:fs` on the descriptors 0, 1 and 2, which here are the host's. */
function divertDescriptors(): void {
  const files = fs as Any;
  const { readFileSync, readSync, writeFileSync, writeSync } = files;
  const given = (chunk: Any) => typeof chunk === "string" ? chunk : decoder().decode(chunk);
  const print = (fd: number, chunk: Any): number => {
    const text = given(chunk);
    (fd === 1 ? stdout : stderr).write(text);
    return typeof chunk === "string" ? text.length : chunk.byteLength;
  };
  const standard = (fd: Any) => fd === 1 || fd === 2;
  files.writeSync = (fd: Any, chunk: Any, ...rest: Any[]) =>
    standard(fd) ? print(fd, chunk) : call(writeSync, fs, [fd, chunk, ...rest]);
  files.writeFileSync = (fd: Any, chunk: Any, ...rest: Any[]) =>
    standard(fd) ? void print(fd, chunk) : call(writeFileSync, fs, [fd, chunk, ...rest]);
  files.readSync = (fd: Any, ...rest: Any[]) => fd === 0 ? 0 : call(readSync, fs, [fd, ...rest]);
  files.readFileSync = (fd: Any, ...rest: Any[]) =>
    fd === 0 ? (rest.length ? "" : new Uint8Array()) : call(readFileSync, fs, [fd, ...rest]);
}

/** Stacks without our own frames. */
function cleanStacks(): void {
  const own = import.meta.url, path = own.slice("file://".length); // Deno says either (seen with 2.9.8)
  (Error as Any).prepareStackTrace = (error: Any, sites: Any[]) => {
    let text = "Error";
    try {
      text = errorToText(error);
    } catch {
      // a name or a message that throws when it is read
    }
    for (let i = 0; i < sites.length; i++) {
      const file = sites[i].getFileName();
      if (file !== own && file !== path) text += `\n    at ${sites[i]}`;
    }
    return text;
  };
}

const errorToText: (error: Any) => string = ((method) => (error: Any) => call(method, error, []))(
  Error.prototype.toString,
);

export function furnish(): void {
  cleanStacks();
  divertDescriptors();
  const console = new internal.Console((text: string, level: number) => say(text, level > 1));
  const known = globalThis.console as Any;
  for (const name of Object.keys(console)) known[name] = console[name];
  for (const [name, value] of [["stdin", source], ["stdout", sink(stdout)], ["stderr", sink(stderr)]] as const) {
    defineProperty(Deno, name, { configurable: true, enumerable: true, writable: true, value });
  }
  // The words of the command line are the names of the variables that the application grants.
  const granted = Deno.args, env: Record<string, string | undefined> = {};
  for (const name of granted) if (Deno.env.has(name)) env[name] = Deno.env.get(name);
  defineProperty(Deno, "args", { configurable: true, enumerable: true, writable: true, value: [] });
  process.argv.length = 2;
  // Packages read `process.env.NODE_ENV` and the like; Deno would throw. 
  defineProperty(process, "env", { configurable: true, enumerable: true, writable: true, value: env });
  // Deno's own ends the process a moment later, which may be in the next run.
  const { exit } = Deno;
  defineProperty(globalThis, "close", { configurable: true, enumerable: true, writable: true, value: () => exit(0) });
  lazily(process, "stdout", () => nodeSink(stdout, 1));
  lazily(process, "stderr", () => nodeSink(stderr, 2));
  lazily(process, "stdin", () => Readable.from([]));
}
