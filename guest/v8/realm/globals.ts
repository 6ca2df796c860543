/** What the global object of a session holds beside the language: and what it must not. */

import {
  type Any,
  apply,
  defineProperty,
  hidden,
  keys,
  type List,
  list,
  ownKeys,
  push,
  TypeError,
} from "./intrinsics.ts";
import { defineBase64 } from "./base64.ts";
import { timerFunctions } from "./clock.ts";
import { replaceClocks } from "./dates.ts";
import { defineDOMException } from "./exceptions.ts";
import { setWeakRef } from "./looking.ts";
import { format } from "./natives.ts";
import { replaceRandom } from "./random.ts";
import { hideStacks } from "./stack.ts";
import { consoleLine } from "./streams.ts";
import { reportUncaught } from "./thrown.ts";

/** A clock (memory that another thread counts in), a second compiler, and what speaks to a debugger. */
const REMOVED = ["SharedArrayBuffer", "WebAssembly", "console", "queueMicrotask"];

function printer(stream: number): (...args: unknown[]) => void {
  return (...args) => consoleLine(stream, format(args));
}

function defineConsole(): void {
  const console = {};
  const streams: Record<string, number> = { __proto__: null, log: 1, info: 1, debug: 1, warn: 2, error: 2 } as Any;
  for (const name in streams) hidden(console, name, { [name]: printer(streams[name]) }[name]);
  hidden(globalThis, "console", console);
}

/** An error in it is reported, as one in a timer is. `await undefined` looks nothing up that guest code could replace. */
async function later(call: Any): Promise<void> {
  await undefined;
  try {
    apply(call, undefined, []);
  } catch (error) {
    reportUncaught(error);
  }
}

/** When garbage is collected depends on the machine, and a session must be the same on each: here these see none. */
function defineWeakReferences(): void {
  class WeakRef {
    #target: unknown;
    constructor(target: unknown) {
      if (
        (typeof target !== "object" && typeof target !== "function" && typeof target !== "symbol") || target === null
      ) {
        throw new TypeError("WeakRef: target must be an object");
      }
      this.#target = target;
    }
    deref(): unknown {
      return this.#target;
    }
    static {
      setWeakRef((value) => typeof value === "object" && value !== null && #target in value);
    }
  }
  class FinalizationRegistry {
    #cleanup: unknown;
    constructor(cleanup: unknown) {
      if (typeof cleanup !== "function") throw new TypeError("FinalizationRegistry: cleanup must be callable");
      this.#cleanup = cleanup;
    }
    register(target: unknown): void {
      void this.#cleanup;
      if (
        (typeof target !== "object" && typeof target !== "function" && typeof target !== "symbol") || target === null
      ) {
        throw new TypeError("FinalizationRegistry.prototype.register: invalid target");
      }
    }
    unregister(): boolean {
      void this.#cleanup;
      return false;
    }
  }
  const tag = { __proto__: null, configurable: true } as Any;
  defineProperty(WeakRef.prototype, Symbol.toStringTag, { ...tag, value: "WeakRef" });
  defineProperty(FinalizationRegistry.prototype, Symbol.toStringTag, { ...tag, value: "FinalizationRegistry" });
  hidden(globalThis, "WeakRef", WeakRef);
  hidden(globalThis, "FinalizationRegistry", FinalizationRegistry);
}

/** Before the bootstrap files. */
export function defineGlobals(): void {
  for (let i = 0; i < REMOVED.length; i++) delete (globalThis as Any)[REMOVED[i]];
  hideStacks();
  replaceClocks();
  replaceRandom();
  defineWeakReferences();
  defineDOMException();
  defineBase64();
  defineConsole();
  const names = keys(timerFunctions) as (keyof typeof timerFunctions)[];
  for (let i = 0; i < names.length; i++) hidden(globalThis, names[i], timerFunctions[names[i]]);
  hidden(
    globalThis,
    "queueMicrotask",
    {
      queueMicrotask(call: unknown) {
        if (typeof call !== "function") throw new TypeError("queueMicrotask: the argument must be a function");
        later(call);
      },
    }.queueMicrotask,
  );
}

/** After them: the names that no run may take. */
export function builtinNames(): List<string> {
  const names = ownKeys(globalThis), found: List<string> = list();
  for (let i = 0; i < names.length; i++) if (typeof names[i] === "string") push(found, names[i] as string);
  return found;
}
