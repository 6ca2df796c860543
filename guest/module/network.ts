/**
 * Why a connection failed: the error of a network call gets the reason that the gateway knows.
 *
 * The name server of a worker's network tells it: a TXT record of `<port>.<host>.why.gloveport.internal`. This is a service for
 * honest code, not a boundary: who avoids it learns nothing and reaches nothing.
 */

import { Socket } from "node:net";

// deno-lint-ignore no-explicit-any
type Any = any;

const ZONE = "why.gloveport.internal";
const PORTS: Record<string, number> = { "http:": 80, "ws:": 80, "https:": 443, "wss:": 443 };
/** Milliseconds for an answer: when the gateway is gone there is none. */
const PATIENCE = 2000;
const { resolveDns } = Deno;
const patience = AbortSignal.timeout.bind(AbortSignal);
const { apply, construct } = Reflect;

/** The reason for what last happened to a connection there, `null` when the gateway knows none. */
async function why(host: string, port: number): Promise<string | null> {
  const plain = host.replace(/^\[|\]$/g, "").replace(/\.$/, "").toLowerCase();
  if (!plain || !port) return null;
  try {
    const name = plain.includes(":") ? plain.replaceAll(":", "-") : plain;
    const records = await resolveDns(`${port}.${name}.${ZONE}`, "TXT", { signal: patience(PATIENCE) });
    return records[0]?.join("") || null;
  } catch {
    return null;
  }
}

function place(url: string | URL): [string, number] {
  try {
    const { hostname, port, protocol } = new URL(url);
    return [hostname, port ? Number(port) : PORTS[protocol] ?? 0];
  } catch {
    return ["", 0];
  }
}

function define(target: object, name: string, value: Any, enumerable = true): void {
  Object.defineProperty(target, name, { value, configurable: true, writable: true, enumerable });
}

/** Where the model's code called `from`; made into a text only when it is read. */
function caller(from: Any): { stack?: string } {
  const here = {};
  Error.captureStackTrace(here, from);
  return here;
}

/** The error with the reason for its message, and without what the system made of it. `here` is where it is thrown from. */
async function explained(error: Any, host: string, port: number, here: { stack?: string } = error): Promise<Any> {
  const reason = await why(host, port);
  if (reason === null || typeof error?.message !== "string") return error;
  try {
    const frames = String(here.stack).split("\n").filter((line) => line.startsWith("    at "));
    define(error, "message", reason, false);
    define(error, "stack", [`${error.name}: ${reason}`, ...frames].join("\n"), false);
    delete error.cause;
  } catch {
    // it is frozen, and stays as it is
  }
  return error;
}

function explainFetch(): void {
  const original = globalThis.fetch;
  define(globalThis, "fetch", function fetch(...args: Any[]): Promise<Response> {
    const here = caller(fetch);
    return apply(original, globalThis, args).catch(async (error: Any) => {
      // After a redirect the host that failed is another one, which only the error names (seen with Deno 2.9.8).
      const said = /for url \(([^)\s]+)\)/.exec(String(error?.cause?.message ?? error?.message));
      const url = said?.[1] ?? (args[0] instanceof Request ? args[0].url : args[0]);
      throw await explained(error, ...place(url), here);
    });
  });
}

function explainConnects(): void {
  for (const name of ["connect", "connectTls"]) {
    const original = (Deno as Any)[name];
    const explaining = (options: Any) => {
      const here = caller(explaining);
      return original(options).catch(async (error: Any) => {
        throw await explained(error, String(options?.hostname ?? "127.0.0.1"), Number(options?.port), here);
      });
    };
    define(Deno, name, explaining);
  }
}

/** node:net, and with it node:http, node:https and node:tls: an error is told once its reason was asked for. */
function explainSockets(): void {
  const prototype = Socket.prototype as Any;
  const { connect, _destroy: destroy } = prototype;
  const places = new WeakMap<object, [string, number]>();
  define(prototype, "connect", function (this: Any, ...args: Any[]) {
    const first = Array.isArray(args[0]) ? args[0][0] : args[0];
    const { host, port } = typeof first === "object" && first !== null ? first : { host: args[1], port: first };
    places.set(this, [typeof host === "string" ? host : "localhost", Number(port)]);
    return apply(connect, this, args);
  });
  define(prototype, "_destroy", function (this: Any, error: Any, done: Any) {
    const where = places.get(this);
    if (!error || !where) apply(destroy, this, [error, done]);
    else explained(error, ...where).then((better) => apply(destroy, this, [better, done]));
  });
}

/** WebSocket: the events `error` and `close` of one that never opened wait for the reason. */
function explainWebSockets(): void {
  const explain = (socket: Any) => {
    const told = new WeakSet<Event>();
    let opened = false;
    let asked: Promise<string | null> | null = null;
    const hold = (event: Any) => {
      if (opened || told.has(event)) return;
      event.stopImmediatePropagation();
      asked ??= why(...place(socket.url));
      asked.then((reason) => {
        const { message, error, wasClean, code } = event;
        const again = event.type === "error"
          ? new ErrorEvent("error", { message: reason ?? message, error: reason ? new Error(reason) : error })
          : new CloseEvent("close", { wasClean, code, reason: event.reason });
        told.add(again);
        socket.dispatchEvent(again);
      });
    };
    socket.addEventListener("open", () => opened = true);
    socket.addEventListener("error", hold);
    socket.addEventListener("close", hold);
    return socket;
  };
  const construction = { construct: (target: Any, args: Any[], made: Any) => explain(construct(target, args, made)) };
  define(globalThis, "WebSocket", new Proxy(globalThis.WebSocket, construction), false);
}

/** Makes the errors of the worker's network calls say why. */
export function explainNetwork(): void {
  explainFetch();
  explainConnects();
  explainSockets();
  explainWebSockets();
}
