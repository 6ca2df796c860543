/** Mounts one widget for good: on the server's renderer, then in the document. */

import vm from "node:vm";
import * as React from "react";
import * as ReactDOM from "react-dom";
import * as client from "react-dom/client";
import { renderToString } from "react-dom/server.edge";
import * as runtime from "react/jsx-runtime";
import * as devRuntime from "react/jsx-dev-runtime";
import * as compilerRuntime from "react/compiler-runtime";
import { type Note, noteOf, Notes, ownerStack, SCRIPT } from "./notes.ts";
import { reportTo } from "./prepare.ts";

export interface Verdict {
  mounted: boolean;
  error: Note | null;
  /** Where it failed. */
  stage: "module" | "export" | "render" | null;
  warnings: Note[];
  name: string;
}

const MODULES = new Map<string, unknown>([
  ["react", React],
  ["react/jsx-runtime", runtime],
  ["react/jsx-dev-runtime", devRuntime],
  ["react/compiler-runtime", compilerRuntime],
  ["react-dom", ReactDOM],
  ["react-dom/client", client],
]);
/** Milliseconds that an empty widget is given to show something, say after a promise. */
const PATIENCE = 50;

const { setTimeout } = globalThis;
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

function load(name: string): unknown {
  const found = MODULES.get(name);
  if (!found) throw new Error(`${name} is not part of a widget's page`);
  return found;
}

/** The default export; of a CommonJS module what it assigned to `module.exports`. */
function exported(code: string): unknown {
  const module: { exports: { default?: unknown } } = { exports: {} };
  vm.compileFunction(code, ["require", "module", "exports"], { filename: SCRIPT })(load, module, module.exports);
  const { exports } = module;
  return typeof exports === "object" ? exports?.default : exports;
}

function whatElse(value: unknown): string {
  if (value === undefined) return "there is none";
  if (React.isValidElement(value)) return "it is an element: export the component itself";
  return `it is ${value === null ? "null" : `of the type ${typeof value}`}`;
}

function isComponent(value: unknown): value is React.ComponentType {
  if (typeof value === "function") return true;
  return typeof value === "object" && value !== null && "$$typeof" in value && !React.isValidElement(value);
}

function nameOf(component: unknown): string {
  try {
    const { displayName, name } = component as { displayName?: unknown; name?: unknown };
    return String(displayName || name || "").slice(0, 80);
  } catch {
    return "";
  }
}

/** What the browser would show on its console and nowhere else is a warning. */
function listenToErrors(notes: Notes, on: typeof addEventListener): void {
  on("error", (event) => {
    event.preventDefault();
    notes.add(noteOf((event as ErrorEvent).error));
  });
  on("unhandledrejection", (event) => {
    event.preventDefault();
    notes.add(noteOf((event as PromiseRejectionEvent).reason));
  });
  reportTo((error) => notes.add(noteOf(error)));
}

function serverRender(Widget: React.ComponentType): Note | null {
  const { console } = globalThis;
  const nothing = () => {};
  globalThis.console = { ...console, error: nothing, warn: nothing }; // it says the same as the document's renderer will
  try {
    renderToString(React.createElement(Widget));
    return null;
  } catch (error) {
    // Waiting for something, and portals, are fine in a browser.
    const browserOnly = error instanceof Error && /suspended|^Portals are not/.test(error.message);
    return browserOnly ? null : noteOf(error);
  } finally {
    globalThis.console = console;
  }
}

async function inDocument(Widget: React.ComponentType, notes: Notes): Promise<Note | null> {
  const container = document.createElement("div");
  container.id = "root";
  document.body.appendChild(container);
  let failed: Note | null = null;
  const root = client.createRoot(container, {
    onUncaughtError: (error, info) => failed ??= noteOf(error, ownerStack(), info.componentStack),
    onCaughtError: (error, info) => notes.add(noteOf(error, ownerStack(), info.componentStack)),
    onRecoverableError: (error) => notes.add(noteOf(error)),
  });
  ReactDOM.flushSync(() => root.render(React.createElement(Widget)));
  for (const end = performance.now() + PATIENCE;;) {
    await pause(0); // effects, promises, and what they set off
    await pause(0);
    if (failed || container.childNodes.length || performance.now() > end) break;
  }
  if (!failed && !container.childNodes.length) {
    notes.add({ text: "the widget shows nothing: it rendered no element and no text", at: [] });
  }
  return failed;
}

/** `on` is the `addEventListener` of this process, from before there was a document. */
export async function mount(code: string, on: typeof addEventListener): Promise<Verdict> {
  const notes = new Notes();
  notes.listen();
  listenToErrors(notes, on);
  const verdict: Verdict = { mounted: false, error: null, stage: null, warnings: notes.kept, name: "" };
  let Widget: unknown;
  try {
    Widget = exported(code);
  } catch (error) {
    return { ...verdict, error: noteOf(error), stage: "module" };
  }
  if (!isComponent(Widget)) {
    const text = "a widget exports a React component as its default, say `export default function Widget() {...}`";
    return { ...verdict, error: { text: `${text}; ${whatElse(Widget)}`, at: [] }, stage: "export" };
  }
  const name = nameOf(Widget);
  const onServer = serverRender(Widget);
  const error = await inDocument(Widget, notes);
  if (error) return { ...verdict, error, stage: "render", name };
  if (onServer) notes.add({ ...onServer, text: `rendering without a browser failed: ${onServer.text}` });
  return { ...verdict, mounted: true, name };
}
