/**
 * What the session's realm gets from this one. It calls these through guards (realm/outside.ts): nothing of this realm, no
 * object and no error, gets past them.
 */

import { types } from "node:util";
import vm from "node:vm";

// deno-lint-ignore no-explicit-any
const { core } = (Deno as any)[(Deno as any).internal];
const { ops } = core;

const CLASSES: [(value: unknown) => boolean, string][] = [
  [types.isNativeError, "error"],
  [types.isDate, "date"],
  [types.isMap, "map"],
  [types.isSet, "set"],
  [types.isTypedArray, "typedarray"],
  [types.isRegExp, "regexp"],
  [types.isPromise, "promise"],
  [types.isBoxedPrimitive, "boxed"],
  [types.isArgumentsObject, "arguments"],
  [types.isAnyArrayBuffer, "arraybuffer"],
  [types.isDataView, "dataview"],
  [types.isWeakMap, "weakmap"],
  [types.isWeakSet, "weakset"],
  [types.isGeneratorObject, "generator"],
  [types.isMapIterator, "iterator"],
  [types.isSetIterator, "iterator"],
  [types.isModuleNamespaceObject, "module"],
];

const encoder = new TextEncoder();
const lossy = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
let written = 0;

/** UTF-8 takes at least a byte for each unit: only longer texts need a look at every character. */
function utf8Length(text: string): number {
  return core.byteLength(text);
}

export function outsideOf(context: vm.Context, logged: () => void, waits: () => void): Record<string, unknown> {
  return {
    isProxy: ops.op_is_proxy,
    classOf(value: object): string {
      for (const [test, name] of CLASSES) if (test(value)) return name;
      return "object";
    },
    promiseState: (promise: unknown) => core.getPromiseDetails(promise)[0],
    promiseResult(promise: unknown, take: (value: unknown) => void) {
      take(core.getPromiseDetails(promise)[1]);
    },
    utf8Length,
    logged,
    waits,
    utf8Into(text: string, into: Uint8Array): number {
      const done = encoder.encodeInto(text, into);
      written = done.written;
      return done.read;
    },
    utf8Written: () => written,
    utf8Decode(bytes: Uint8Array, fatal: boolean): string | null {
      if (!fatal) return lossy.decode(bytes);
      try {
        return strict.decode(bytes);
      } catch {
        return null;
      }
    },
    evaluate(source: string, name: string, take: (worked: boolean, value: unknown) => void): string | null {
      let script: vm.Script, value: unknown;
      try {
        // The second line of a run is the first line of the guest's code.
        script = new vm.Script(source, { filename: name, lineOffset: name === "<run>" ? -1 : 0 });
      } catch (error) {
        return String((error as Error).message);
      }
      try {
        value = script.runInContext(context);
      } catch (error) {
        take(false, error);
        return null;
      }
      take(true, value);
      return null;
    },
  };
}
