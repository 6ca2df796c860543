/** What was thrown, as the host is told of it. */

import { inspect, slice, stringify, text, toWellFormed } from "./originals.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

const MAX_MESSAGE = 4000;
const FRAME = /^\s*at (?:(.*?) \()?(?:(?:file:\/\/)?\/[^():]*\/)?(module-\d+\.ts):(\d{1,9}):(\d{1,9})\)?$/;
const match = FRAME.exec.bind(FRAME);
const { getOwnPropertyDescriptor } = Reflect;
const { isError } = Error as Any;
const split: (value: string, by: string) => string[] = (value, by) => {
  const parts: string[] = [];
  for (let from = 0; parts.length < 100;) {
    const at = value.indexOf(by, from);
    parts[parts.length] = slice(value, from, at < 0 ? undefined : at);
    if (at < 0) break;
    from = at + 1;
  }
  return parts;
};

export interface Thrown {
  kind: string;
  name: string;
  message: string;
  /** Function, module, line, column. */
  frames: [string, string, number, number][];
}

function bounded(value: unknown): string {
  const whole = text(value);
  return toWellFormed(whole.length > MAX_MESSAGE ? `${slice(whole, 0, MAX_MESSAGE)}…` : whole);
}

function quietly<T>(step: () => T, otherwise: T): T {
  try {
    return step();
  } catch {
    return otherwise;
  }
}

function described(error: Any): string {
  const message = quietly(() => bounded(error.message), "");
  const cause = quietly(() => getOwnPropertyDescriptor(error, "cause")?.value, undefined);
  const inner = quietly(() => error.errors, undefined);
  let whole = message;
  if (Array.isArray(inner)) {
    for (let i = 0; i < inner.length && i < 5; i++) whole += `\n  - ${quietly(() => bounded(inner[i]), "?")}`;
  }
  if (cause !== undefined) whole += ` (cause: ${quietly(() => bounded(isError(cause) ? `${cause}` : inspect(cause)), "?")})`;
  return bounded(whole);
}

/** `kind` is ours; name and text are the model's. */
export function thrown(error: Any, kind = "threw"): Thrown {
  if (!quietly(() => isError(error) || typeof error?.message === "string", false)) {
    const shown = typeof error === "string" ? error : quietly(() => inspect(error, { colors: false }), "?");
    return { kind, name: "Error", message: bounded(typeof error === "string" ? shown : `thrown value: ${shown}`), frames: [] };
  }
  const frames: Thrown["frames"] = [];
  const stack = quietly(() => text(error.stack), "");
  const lines = split(slice(stack, 0, 100_000), "\n");
  for (let i = 0; i < lines.length && frames.length < 10; i++) {
    const found = match(lines[i]);
    if (found) frames[frames.length] = [slice(found[1] ?? "", 0, 100), found[2], Number(found[3]), Number(found[4])];
  }
  const name = quietly(() => toWellFormed(slice(text(error.name), 0, 100)), "Error");
  return { kind, name, message: described(error), frames };
}

/** As JSON. */
export function toJson({ kind, name, message, frames }: Thrown): string {
  let list = "";
  for (let i = 0; i < frames.length; i++) {
    const [where, module, line, column] = frames[i];
    list += `${i ? "," : ""}[${stringify(toWellFormed(where))},${stringify(module)},${line},${column}]`;
  }
  return `{"kind":${stringify(kind)},"name":${stringify(name)},"message":${stringify(message)},"frames":[${list}]}`;
}
