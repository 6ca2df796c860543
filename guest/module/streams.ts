/**
 * Standard streams that are the run's, not the process's: descriptors 0 and 1 are the line to the host.
 *
 * A Worker has a console, a `Deno` and builtin modules of its own, so each begins with the text of `divert`, which therefore names
 * nothing of this file but itself. Seen with Deno 2.9.8: of a builtin module, only the default export can be changed.
 */

// deno-lint-ignore no-explicit-any
type Any = any;
type Fits = (fd: Any) => boolean;
type Ours = (...args: Any[]) => Any;

/** Takes what is printed on a descriptor, 1 or 2; `whole`: lines that are complete by themselves. */
export type Print = (fd: number, text: string, whole: boolean) => void;

/** `web`: what a web Worker was started with; it does not run under that name. */
export function divert(print: Print, web: string): void {
  const { apply, construct, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const decoders: Record<number, TextDecoder> = { 1: new TextDecoder(), 2: new TextDecoder() };
  /** Bytes as a program writes them: a character may come in pieces. */
  const write = (fd: number, bytes: Uint8Array): number => {
    print(fd, decoders[fd].decode(bytes, { stream: true }), false);
    return bytes.length;
  };
  const define = (target: object, name: string, value: Any, enumerable = true) =>
    defineProperty(target, name, { configurable: true, enumerable, writable: true, value });

  // ── the console and Deno ──

  const { Console } = (Deno as Any)[(Deno as Any).internal];
  const console = new Console((text: string, level: number) => print(level > 1 ? 2 : 1, text, true));
  for (const name of Object.keys(console)) (globalThis.console as Any)[name] = console[name];

  const sink = (fd: number): Any => ({
    writeSync: (bytes: Uint8Array) => write(fd, bytes),
    write: (bytes: Uint8Array) => Promise.resolve(write(fd, bytes)),
    isTerminal: () => false,
    close() {},
    get writable() {
      return new WritableStream({ write: (bytes: Uint8Array) => void write(fd, bytes) });
    },
    [Symbol.dispose]() {},
  });
  define(Deno, "stdout", sink(1));
  define(Deno, "stderr", sink(2));
  define(Deno, "stdin", { // at its end
    readSync: () => null,
    read: () => Promise.resolve(null),
    isTerminal: () => false,
    setRaw() {},
    close() {},
    get readable() {
      return new ReadableStream({ start: (controller) => controller.close() });
    },
    [Symbol.dispose]() {},
  });

  // ── web Workers ──

  /** A message of a Worker with what it printed. */
  const mark = "gloveport:print";
  const beginning = `{const post=postMessage;(${divert})((...said)=>post({"${mark}":said}),` +
    `decodeURIComponent(location.hash.slice(1)))}`;
  const urls: Record<string, string> = {};
  /** A module that imports a beginning and then what was meant, whose name it carries behind the `#`. */
  const begun = (beginning: string, url: string): string => {
    const first = urls[beginning] ??= URL.createObjectURL(new Blob([beginning], { type: "text/javascript" }));
    const imports = `import ${JSON.stringify(first)};import ${JSON.stringify(url)};`;
    return `data:text/javascript,${encodeURIComponent(imports)}#${encodeURIComponent(url)}`;
  };
  if (web) define(globalThis, "location", new URL(web));
  const start = (theirs: Any, args: Any[], made: Any): Any => {
    const [url, options, ...rest] = args, named = String(url);
    const meant = URL.canParse(named, web || undefined) ? new URL(named, web || undefined).href : null;
    if (meant === null || options?.type !== "module") return construct(theirs, args, made); // it has words for that
    const worker: Any = construct(theirs, [begun(beginning, meant), options, ...rest], made);
    worker.addEventListener("message", (event: MessageEvent) => {
      const said = event.data?.[mark];
      if (!Array.isArray(said)) return;
      event.stopImmediatePropagation();
      print(said[0] === 2 ? 2 : 1, String(said[1]), said[2] === true);
    });
    return worker;
  };
  define(globalThis, "Worker", new Proxy((globalThis as Any).Worker, { construct: start }), false);

  // ── Node.js ──

  const divertNode = (process: Any): void => {
    const { nextTick } = process;
    const builtin = (name: string): Any => process.getBuiltinModule(`node:${name}`);
    const { Buffer } = builtin("buffer");
    const stream = builtin("stream");
    const fs = builtin("fs");

    const nodeSink = (fd: number): Any => {
      const made = new stream.Writable({ write: (chunk: Any, _: Any, done: () => void) => (write(fd, chunk), done()) });
      made.fd = fd;
      made.isTTY = false;
      made.close = (done: Any) => made.end(done);
      return made;
    };
    const lazily = (name: string, make: () => Any) => {
      let made: Any;
      defineProperty(process, name, {
        configurable: true,
        enumerable: true,
        get: () => made ??= make(),
        set: (value) => made = value,
      });
    };
    lazily("stdout", () => nodeSink(1));
    lazily("stderr", () => nodeSink(2));
    lazily("stdin", () => stream.Readable.from([]));

    const bytes = (data: Any, encoding: Any): Any =>
      typeof data === "string"
        ? Buffer.from(data, typeof encoding === "string" ? encoding : "utf8")
        : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const encodingOf = (options: Any) => typeof options === "string" ? options : options?.encoding;
    /** What `write` is given: a text, its position and encoding; or bytes, and which of them. */
    const part = (fd: number, data: Any, at: Any, length: Any): number => {
      const whole = bytes(data, length);
      if (typeof data === "string") return write(fd, whole);
      const { offset, length: count } = typeof at === "object" && at !== null ? at : { offset: at, length };
      const from = offset ?? 0;
      return write(fd, whole.subarray(from, typeof count === "number" ? from + count : whole.length));
    };
    const list = (fd: number, buffers: Any[]): number => {
      let size = 0;
      for (let i = 0; i < buffers.length; i++) size += write(fd, bytes(buffers[i], null));
      return size;
    };
    const all = (fd: number, data: Any, options: Any): void => void write(fd, bytes(data, encodingOf(options)));
    const empty = (_: number, options: Any) => encodingOf(options) ? "" : Buffer.alloc(0);

    const isIn: Fits = (fd) => fd === 0;
    const isOut: Fits = (fd) => fd === 1 || fd === 2;
    /** `name` is ours when its first argument is one of those descriptors. */
    const own = (target: Any, name: string, fits: Fits, ours: Ours) => {
      const choose = (theirs: Any, self: Any, args: Any[]) => apply(fits(args[0]) ? ours : theirs, self, args);
      target[name] = new Proxy(target[name], { apply: choose });
    };
    /** So are `name` and `nameSync`. The first calls back with the result and its second argument. */
    const both = (name: string, fits: Fits, ours: Ours) => {
      own(fs, `${name}Sync`, fits, ours);
      own(fs, name, fits, (...args) => {
        const done = args.pop();
        nextTick(done, null, apply(ours, fs, args), args[1]);
      });
    };
    both("write", isOut, part);
    both("writev", isOut, list);
    both("writeFile", isOut, all);
    both("appendFile", isOut, all);
    both("read", isIn, () => 0);
    both("readv", isIn, () => 0);
    both("readFile", isIn, empty);
    both("close", (fd) => isIn(fd) || isOut(fd), () => {});
    for (const name of ["writeFile", "appendFile"]) {
      own(fs.promises, name, isOut, (...args) => Promise.resolve(apply(all, fs, args)));
    }
    const streams = (name: string, fits: Fits, ours: (fd: number) => Any) => {
      fs[name] = new Proxy(fs[name], {
        apply: (theirs, self, args) => fits(args[1]?.fd) ? ours(args[1].fd) : apply(theirs, self, args),
        construct: (theirs, args, made) => fits(args[1]?.fd) ? ours(args[1].fd) : construct(theirs, args, made),
      });
    };
    for (const name of ["createWriteStream", "WriteStream"]) streams(name, isOut, nodeSink);
    for (const name of ["createReadStream", "ReadStream"]) streams(name, isIn, () => stream.Readable.from([]));

    // Its Workers have two streams, and Deno hands over what comes in messages of these types (seen with 2.9.8).
    const port = `process.getBuiltinModule("node:worker_threads").parentPort`;
    const beginning = `{const port=${port};(${divert})((fd,text,whole)=>` +
      `port.postMessage({type:fd===1?"WORKER_STDOUT":"WORKER_STDERR",data:whole&&!text.endsWith("\\n")?text+"\\n":text}),"")}`;
    const start = (theirs: Any, args: Any[], made: Any): Any => {
      const [file, options, ...rest] = args;
      const isPath = typeof file === "string" && /^(?:\/|\.\.?\/)/.test(file);
      let meant = file;
      if (options?.eval) {
        if (typeof file === "string") meant = `${beginning};${file}`;
      } else if (isPath || (file instanceof URL && /^(?:data|file):$/.test(file.protocol))) {
        const url = isPath ? builtin("url").pathToFileURL(builtin("path").resolve(file)) : file;
        meant = new URL(begun(beginning, url.href));
      }
      const worker: Any = construct(theirs, [meant, options, ...rest], made);
      if (!options?.stdout) worker.stdout.on("data", (chunk: Any) => write(1, bytes(chunk, null)));
      if (!options?.stderr) worker.stderr.on("data", (chunk: Any) => write(2, bytes(chunk, null)));
      return worker;
    };
    const threads = builtin("worker_threads");
    threads.Worker = new Proxy(threads.Worker, { construct: start });
  };

  if (!web) return divertNode((globalThis as Any).process);
  // Loading what is Node's takes longer than starting a web Worker: they do so when they ask for it.
  const { get, value } = getOwnPropertyDescriptor(globalThis, "process")!;
  let process: Any;
  defineProperty(globalThis, "process", {
    configurable: true,
    get: () => {
      if (process === undefined) divertNode(process = get ? apply(get, globalThis, []) : value);
      return process;
    },
    set: (value) => process = value,
  });
}
