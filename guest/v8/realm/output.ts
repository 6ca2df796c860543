/** Messages to the host, as JSON texts in the order in which they are complete. */

import { type List, list, push, RangeError } from "./intrinsics.ts";
import { outside } from "./outside.ts";

/** The host refuses frames above 64 MiB; stop a little before. */
const MAX_BYTES = 63 << 20;
const SHORT = 1000;

let messages: List<string> = list();
let bytes = 0;

/** Bytes of a message and its length: at most, of short ones as long as there is much room. */
function sizeOf(message: string): number {
  const most = 3 * message.length + 4;
  return message.length < SHORT && bytes + most < MAX_BYTES / 2 ? most : outside.utf8Length(message) + 4;
}

/** Whether it fits beside what is said already in this step. */
export function fits(message: string): boolean {
  return bytes + sizeOf(message) <= MAX_BYTES;
}

export function say(message: string): void {
  const size = sizeOf(message);
  if (bytes + size > MAX_BYTES) throw new RangeError("more than 63 MiB at once");
  bytes += size;
  push(messages, message);
}

/** What was said; the host's end writes it. What goes out early still counts: when it does is no business of the guest's. */
export function takeMessages(early = false): List<string> {
  const taken = messages;
  messages = list();
  if (!early) bytes = 0;
  return taken;
}
