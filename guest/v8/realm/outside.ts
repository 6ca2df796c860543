/** What the host's realm lends to this one. Each takes and gives primitives, or takes objects of ours and gives a primitive. */

import { type Any, guarded } from "./intrinsics.ts";

export interface Outside {
  isProxy(value: unknown): boolean;
  /** The class of an object that is neither a proxy nor an array, as `native.classOf` names it. */
  classOf(value: object): string;
  /** 0 pending, 1 fulfilled, 2 rejected. */
  promiseState(promise: object): number;
  /** Calls `take(value)` with what a settled promise holds. */
  promiseResult(promise: object, take: (value: unknown) => void): void;
  /** Bytes of a text as UTF-8. */
  utf8Length(text: string): number;
  /** Fills `into` with the UTF-8 of a text; gives the code units that were read. */
  utf8Into(text: string, into: Uint8Array): number;
  /** Bytes that `utf8Into` wrote. */
  utf8Written(): number;
  /** The text of UTF-8; `null` when it is ill-formed and `fatal`. */
  utf8Decode(bytes: Uint8Array, fatal: boolean): string | null;
  /** There is a line of console output: what was said so far may go out before the step ends. */
  logged(): void;
  /** The clock was read so often that the run may be waiting for it. */
  waits(): void;
  /** Calls `take(true, value)` with what a script gives, `take(false, error)` with what it throws; or says why it does not compile. */
  evaluate(source: string, name: string, take: (worked: boolean, value: unknown) => void): string | null;
}

const BUSY = "Maximum call stack size exceeded";

export let outside: Outside;

export function setOutside(given: Any): void {
  outside = {
    __proto__: null,
    isProxy: guarded(given.isProxy, BUSY),
    classOf: guarded(given.classOf, BUSY),
    promiseState: guarded(given.promiseState, BUSY),
    promiseResult: guarded(given.promiseResult, BUSY),
    utf8Length: guarded(given.utf8Length, BUSY),
    utf8Into: guarded(given.utf8Into, BUSY),
    utf8Written: guarded(given.utf8Written, BUSY),
    utf8Decode: guarded(given.utf8Decode, BUSY),
    logged: guarded(given.logged, BUSY),
    waits: guarded(given.waits, BUSY),
    evaluate: guarded(given.evaluate, BUSY),
  } as unknown as Outside;
}
