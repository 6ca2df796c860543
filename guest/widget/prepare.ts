/**
 * Comes before everything else. npm packages look at the environment when they are loaded, and reading it is not permitted here; React
 * then takes what it reports errors of event handlers to.
 */
Object.defineProperty(globalThis.process, "env", { value: {}, configurable: true, writable: true });

let sink: (error: unknown) => void = () => {};

/** Where errors go that a browser would show on its console. */
export function reportTo(listener: (error: unknown) => void): void {
  sink = listener;
}

Object.defineProperty(globalThis, "reportError", {
  value: (error: unknown) => sink(error),
  configurable: true,
  writable: true,
});
