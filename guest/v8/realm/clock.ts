/**
 * Virtual time. The host says where the clock starts and how far a tool call took it; between calls it jumps from timer to
 * timer. Nothing here, and nothing that guest code can reach, knows the real time.
 */

import {
  type Any,
  apply,
  floor,
  type List,
  list,
  Map,
  mapDelete,
  mapGet,
  mapSet,
  push,
  TypeError,
} from "./intrinsics.ts";
import { outside } from "./outside.ts";
import { consoleLine } from "./streams.ts";
import { reportUncaught } from "./thrown.ts";

const BUSY_WAIT = 1000;

let origin = 0, now = 0, frozen = false, reads = 0;

export function setClock(start: number, stands: boolean): void {
  origin = now = start;
  frozen = stands;
}

export const clock = {
  __proto__: null,
  /** Milliseconds since 1970, with fractions. */
  read(): number {
    if (++reads === BUSY_WAIT) outside.waits();
    return frozen ? origin : now;
  },
  origin: () => origin,
  timers: () => now,
  reads: () => reads,
  forgetReads() {
    reads = 0;
  },
};

/** What `Date` says. */
export const wholeMilliseconds = (): number => floor(clock.read());

interface Timer {
  due: number;
  interval: number;
  order: number;
  id: number;
  at: number;
  firing: boolean;
  dead: boolean;
  /** Of AbortSignal.timeout: nobody can clear it, so one that is left over is no news. */
  quiet: boolean;
  call: Any;
  args: Any;
}

const byId = new Map();
let heap: List<Timer> = list();
let lastId = 0, lastOrder = 0;

const before = (a: Timer, b: Timer) => a.due < b.due || (a.due === b.due && a.order < b.order);

function put(index: number, timer: Timer): void {
  heap[index] = timer;
  timer.at = index;
}

function up(timer: Timer): void {
  let i = timer.at;
  for (; i > 0 && before(timer, heap[(i - 1) >> 1]); i = (i - 1) >> 1) put(i, heap[(i - 1) >> 1]);
  put(i, timer);
}

function down(timer: Timer): void {
  let i = timer.at;
  for (;;) {
    let k = 2 * i + 1;
    if (k >= heap.n) break;
    if (k + 1 < heap.n && before(heap[k + 1], heap[k])) k++;
    if (!before(heap[k], timer)) break;
    put(i, heap[k]);
    i = k;
  }
  put(i, timer);
}

function schedule(timer: Timer): void {
  timer.order = ++lastOrder;
  timer.at = heap.n;
  push(heap, timer);
  up(timer);
}

function unschedule(timer: Timer): void {
  const last = heap[--heap.n];
  delete heap[heap.n];
  if (last === timer) return;
  put(timer.at, last);
  up(last);
  down(last);
}

/** A delay is a 32-bit integer as in browsers; less than 1 ms is 1 ms as in Node, so that polling makes time pass. */
function setTimer(kind: string, call: Any, delay: Any, args: Any, interval: boolean, quiet: boolean): number {
  if (typeof call !== "function") throw new TypeError(`${kind}: the first argument must be a function`);
  let ms = delay | 0;
  if (ms < 1) ms = kind === "setImmediate" ? 0 : 1;
  const id = ++lastId;
  const timer: Timer = {
    __proto__: null,
    due: now + ms,
    interval: interval ? ms : 0,
    order: 0,
    id,
    at: 0,
    firing: false,
    dead: false,
    quiet,
    call,
    args,
  } as Any;
  mapSet(byId, id, timer);
  schedule(timer);
  return id;
}

function clearTimer(id: unknown): void {
  if (typeof id !== "number") return;
  const timer = mapGet(byId, id);
  if (timer === undefined) return;
  mapDelete(byId, id);
  if (timer.firing) timer.dead = true;
  else unschedule(timer);
}

export const timerFunctions = {
  __proto__: null,
  setTimeout: (call: Any, delay?: Any, ...args: Any[]) => setTimer("setTimeout", call, delay, args, false, false),
  setInterval: (call: Any, delay?: Any, ...args: Any[]) => setTimer("setInterval", call, delay, args, true, false),
  setImmediate: (call: Any, ...args: Any[]) => setTimer("setImmediate", call, 0, args, false, false),
  clearTimeout: (id?: Any) => clearTimer(id),
  clearInterval: (id?: Any) => clearTimer(id),
  clearImmediate: (id?: Any) => clearTimer(id),
};

export const quietTimer = (call: Any, delay: Any): number => setTimer("setTimeout", call, delay, [], false, true);

export const timersLeft = (): number => heap.n;
export const nextTimer = (): number => heap[0].due - now;

/** Takes the first timer, moves the clock to it and calls it. */
export function fireNext(): void {
  const timer = heap[0];
  unschedule(timer);
  if (timer.due > now) now = timer.due;
  if (!timer.interval) mapDelete(byId, timer.id);
  timer.firing = true;
  try {
    apply(timer.call, globalThis, timer.args);
  } catch (error) {
    reportUncaught(error);
  }
  timer.firing = false;
  if (timer.interval && !timer.dead) {
    timer.due = now + timer.interval;
    schedule(timer);
  }
}

/** Whether a timer is due by then. */
export const isDue = (time: number): boolean => heap.n > 0 && heap[0].due <= time;

export function moveTo(time: number): void {
  if (time > now) now = time;
}

export function cancelTimers(): void {
  let count = 0;
  for (let i = 0; i < heap.n; i++) {
    if (!heap[i].quiet) count++;
    mapDelete(byId, heap[i].id);
  }
  heap = list();
  if (count === 0) return;
  consoleLine(
    2,
    count === 1
      ? "1 timer was still set when the run ended and was cancelled"
      : `${count} timers were still set when the run ended and were cancelled`,
  );
}
