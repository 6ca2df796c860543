/** What went wrong while a widget was mounted, with places in its script. */

import { format } from "node:util";
import * as React from "react";

export type Place = [number, number];
export interface Note {
  text: string;
  /** Lines and columns of the widget's script, 1-based, innermost first; empty: unknown. */
  at: Place[];
}

/** The name of a widget's script in stacks. */
export const SCRIPT = "widget.js";
const MOST_NOTES = 20;
const MOST_TEXT = 1000;
const MOST_PLACES = 12;
const FRAME = /\bwidget\.js:(\d+):(\d+)/g;

function cut(text: string): string {
  return text.length > MOST_TEXT ? text.slice(0, MOST_TEXT) + "..." : text;
}

/** Places of the widget's script in stacks of any form. */
export function places(...stacks: unknown[]): Place[] {
  const found: Place[] = [];
  for (const stack of stacks) {
    for (const [, line, column] of typeof stack === "string" ? stack.matchAll(FRAME) : []) {
      found.push([+line!, +column!]);
    }
  }
  return found.slice(0, MOST_PLACES);
}

/** Where the component that React is at work on was put into the tree. */
export function ownerStack(): unknown {
  return (React as { captureOwnerStack?: () => unknown }).captureOwnerStack?.();
}

/** A thrown value as text; never throws. */
export function described(thrown: unknown): string {
  try {
    return cut(
      thrown instanceof Error
        ? `${thrown.name}: ${thrown.message}`
        : `a value that is no error was thrown: ${format(thrown)}`,
    );
  } catch {
    return "a value that cannot be shown was thrown";
  }
}

export function noteOf(thrown: unknown, ...stacks: unknown[]): Note {
  let stack: unknown;
  try {
    stack = (thrown as { stack?: unknown } | null)?.stack;
  } catch {
    stack = "";
  }
  return { text: described(thrown), at: places(stack, ...stacks) };
}

export class Notes {
  readonly kept: Note[] = [];
  #seen = new Set<string>();

  add(note: Note): void {
    if (this.kept.length >= MOST_NOTES || this.#seen.has(note.text)) return;
    this.#seen.add(note.text);
    this.kept.push(note);
  }

  /** Takes what is said on the console: React warns there. Its texts are several paragraphs; the tree that it draws is left out. */
  listen(): void {
    const warn = (...values: unknown[]) => {
      let text: string;
      try {
        text = format(...values);
      } catch {
        return;
      }
      const said = text.split(/\n\n {2,}/)[0]!.replace(/ ?See https:\/\/react\.dev\S+ for more information\.?/, "");
      this.add({ text: cut(said.replace(/\s+/g, " ").trim()), at: places(ownerStack()) });
    };
    const nothing = () => {};
    const quiet = Object.fromEntries(Object.keys(console).map((name) => [name, nothing]));
    Object.defineProperty(globalThis, "console", {
      value: { ...quiet, error: warn, warn },
      configurable: true,
      writable: true,
    });
  }
}
