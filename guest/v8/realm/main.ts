/**
 * The program inside of a session's realm. The host's realm evaluates it there and calls what it gives, with primitives only;
 * no object of that realm ever comes in where guest code could get hold of it.
 */

import { type Any } from "./intrinsics.ts";
import { clock } from "./clock.ts";
import { builtinNames, defineGlobals } from "./globals.ts";
import { native } from "./natives.ts";
import { takeMessages } from "./output.ts";
import { setOutside } from "./outside.ts";
import {
  advance,
  bind,
  isActive,
  isOpen,
  open,
  proceed,
  rehearsed,
  rejected,
  reseed,
  reserveNames,
  retrace,
  start,
  startPlain,
  statusOfStep,
} from "./run.ts";
import { resetConsole } from "./streams.ts";

export default function realm(given: Any): Any {
  setOutside(given);
  resetConsole(0);
  defineGlobals();
  const primordials = { __proto__: null };
  return {
    __proto__: null,
    /** One bootstrap file: a function that takes these two. */
    boot: (file: Any) => file(native, primordials),
    booted: () => reserveNames(builtinNames()),
    open,
    start,
    startPlain,
    advance,
    bind,
    reseed,
    proceed,
    rejected,
    retrace,
    rehearsed,
    isActive,
    isOpen,
    status: statusOfStep,
    reads: () => clock.reads(),
    messages: takeMessages,
  };
}
