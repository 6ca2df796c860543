/** A document in this process: what a widget finds in a browser, as far as happy-dom has it, and nothing of Deno. */

import { Window } from "happy-dom";

/** Of these Deno has its own, which do not know the document. */
const REPLACED = [
  "Event",
  "EventTarget",
  "CustomEvent",
  "MessageEvent",
  "ErrorEvent",
  "navigator",
  "location",
  "localStorage",
  "sessionStorage",
  "addEventListener",
  "removeEventListener",
  "dispatchEvent",
];
/** A page's policy allows none of these. */
const FORBIDDEN = ["fetch", "WebSocket", "EventSource", "XMLHttpRequest"];
/** They are the host's end of this process, lead around the document, or are in no browser. */
const REMOVED = (
  "Deno process Buffer global nodeBootstrap happyDOM setImmediate clearImmediate Worker close caches onload onunload attachEvent detachEvent"
).split(" ");

function define(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

function names(window: object): Set<string> {
  const found = new Set<string>();
  for (let at = window; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) found.add(name);
  }
  return found;
}

function refuse(name: string) {
  return function refused() {
    throw new TypeError(`${name} is not allowed: a widget has no network`);
  };
}

const { Event: DenoEvent } = globalThis;
const dispatch = globalThis.dispatchEvent.bind(globalThis);

/** Makes the globals of a page out of this process's. */
export function installDocument(): void {
  const window = new Window({ url: "about:blank", width: 1024, height: 768 }) as unknown as Record<string, unknown>;
  for (const name of names(window)) {
    if (name in globalThis && !REPLACED.includes(name)) continue;
    const value = window[name];
    const isFunction = typeof value === "function" && !/^[A-Z]/.test(name);
    define(name, isFunction ? (value as () => unknown).bind(window) : value);
  }
  // Deno tells of errors that nobody caught by an event of its own, through the global function.
  const toWindow = globalThis.dispatchEvent;
  define("dispatchEvent", (event: Event) => event instanceof DenoEvent ? dispatch(event) : toWindow(event));
  for (const name of ["window", "self", "top", "parent", "frames"]) define(name, globalThis);
  for (const name of FORBIDDEN) define(name, refuse(name));
  define("fetch", () => Promise.reject(new TypeError("Failed to fetch: a widget has no network")));
  define("alert", () => {});
  define("confirm", () => false);
  define("prompt", () => null);
}

/** The last step before a widget: this process's own powers are out of its sight. (What holds it is the jail.) */
export function hideHost(): void {
  for (const name of REMOVED) delete (globalThis as Record<string, unknown>)[name];
}
