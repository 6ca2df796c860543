/** Tool calls: a function per tool, and the promises that wait for the host. */

import {
  type Any,
  defineProperty,
  hidden,
  type List,
  list,
  Map,
  mapDelete,
  mapGet,
  mapSet,
  mapSize,
  Promise,
  Proxy,
  push,
  RangeError,
  TypeError,
} from "./intrinsics.ts";
import { decode, madeError, ownText } from "./decode.ts";
import { encodeValues, textOf } from "./encode.ts";
import { fits, say } from "./output.ts";
import { here, stackOfCall } from "./stack.ts";

interface Call {
  resolve: (value: unknown) => void;
  reject: (reason: unknown) => void;
  /** Where the guest was; `null`: nobody will ask. */
  place: object | null;
  tool: string;
}

const open = new Map();
let lastId = 0, placeless = 0;

/** Whether a run is under way: tools can be called. */
export const session = { __proto__: null, active: false };

export const openCalls = (): number => mapSize(open);

/** The function `shown`, which calls what the host knows as `name`. */
function makeTool(name: string, shown = name): (...args: unknown[]) => unknown {
  const e = { flags: 0 }, quoted = textOf(e, name);
  const tool = {
    [shown]: (...args: unknown[]) => {
      if (!session.active) throw new TypeError("tools can be called only while a run is going on");
      const values: List<unknown> = list();
      for (let i = 0; i < args.length; i++) push(values, args[i]);
      const encoded = encodeValues(values, false, name, "pass plain data");
      if (encoded.refusal !== null) throw new TypeError(encoded.refusal);
      const id = lastId + 1;
      const message = `{"t":"call","f":${encoded.flags | e.flags},"n":${quoted},"a":[${encoded.text}],"id":${id}}`;
      if (!fits(message)) throw new RangeError("more than 63 MiB of tool arguments at once");
      const call = { __proto__: null, place: id > placeless ? here() : null, tool: name } as unknown as Call;
      const promise = new Promise((resolve, reject) => {
        call.resolve = resolve;
        call.reject = reject;
      });
      mapSet(open, id, call);
      try {
        say(message);
      } catch (error) { // no stack left: the call was not made
        mapDelete(open, id);
        throw error;
      }
      lastId = id;
      return promise;
    },
  }[shown];
  defineProperty(tool, "length", { __proto__: null, value: 0, configurable: true } as Any);
  return tool;
}

/** Settles call `id` with what the host says. */
export function settleCall(id: number, ok: boolean, json: string): void {
  const call: Call = mapGet(open, id);
  mapDelete(open, id);
  let value: Any;
  try {
    value = decode(json);
    if (!ok) {
      value = madeError(ownText(value, "name"), ownText(value, "message") ?? "", stackOfCall(call.place!, call.tool));
    }
  } catch (error) { // no memory, or not JSON: the caller of the tool gets that
    ok = false;
    value = error;
  }
  if (ok) call.resolve(value);
  else call.reject(value);
}

/** Takes away a tool of a session that was only there to warm up; no trace of its calls is left. */
export function forgetTool(name: string): void {
  delete (globalThis as Any)[name];
  lastId = 0;
}

/** Calls up to that one will be settled well: where they are made is not noted, which takes as long as half of the rest. */
export function forgetPlaces(upTo: number): void {
  placeless = upTo;
}

export const isOpen = (id: number): boolean => mapGet(open, id) !== undefined;

/**
 * The object of a catalog, whose tools are not installed: what it has, or inherits, as it is; for any other name the function that
 * calls it. `then` and `toJSON` would make a promise, or JSON text, of it whenever it is awaited or written out.
 */
function makeCatalog(target: object, name: string): object {
  return new Proxy(target, {
    __proto__: null,
    get(of: Any, key: Any): unknown {
      if (key in of || typeof key !== "string" || key === "then" || key === "toJSON") return of[key];
      return makeTool(`${name}.${key}`, key);
    },
  } as Any);
}

/** The tools, as globals or on the object `namespace`; and the object `catalog`, which is the same one if there is a namespace.
 * Gives the global names. */
export function installTools(namespace: unknown, names: Any, catalog: unknown): List<string> {
  const made: List<string> = list();
  const own = typeof namespace === "string", open = typeof catalog === "string";
  const target = {};
  for (let i = 0; i < names.length; i++) {
    if (!own) {
      bindTool(names[i], made);
      continue;
    }
    const value = makeTool(names[i]);
    const property = { __proto__: null, value, writable: true, enumerable: true, configurable: true } as Any;
    defineProperty(target, names[i], property);
  }
  if (!own && !open) return made;
  const name = (own ? namespace : catalog) as string;
  hidden(globalThis, name, open ? makeCatalog(target, name) : target);
  push(made, name);
  return made;
}

/** One tool as a global. */
export function bindTool(name: string, made: List<string>): void {
  hidden(globalThis, name, makeTool(name));
  push(made, name);
}
