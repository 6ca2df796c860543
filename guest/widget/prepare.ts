/** Comes before everything else: npm packages look at the environment when they are loaded, and reading it is not permitted here. */
Object.defineProperty(globalThis.process, "env", { value: {}, configurable: true, writable: true });
