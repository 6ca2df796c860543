/** What a module finds around it. */

import process from "node:process";
import { say, stderr, stdout } from "./output.ts";
import { call, defineProperty } from "./originals.ts";
import { divert } from "./streams.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** Stacks without our own frames. */
function cleanStacks(): void {
  const own = import.meta.url, path = own.slice("file://".length); // Deno says either (seen with 2.9.8)
  (Error as Any).prepareStackTrace = (error: Any, sites: Any[]) => {
    let text = "Error";
    try {
      text = errorToText(error);
    } catch {
      // a name or a message that throws when it is read
    }
    for (let i = 0; i < sites.length; i++) {
      const file = sites[i].getFileName();
      if (file !== own && file !== path) text += `\n    at ${sites[i]}`;
    }
    return text;
  };
}

const errorToText: (error: Any) => string = ((method) => (error: Any) => call(method, error, []))(
  Error.prototype.toString,
);

export function furnish(): void {
  cleanStacks();
  divert((fd, text, whole) => {
    if (whole) say(text, fd === 2);
    else (fd === 2 ? stderr : stdout).write(text);
  }, "");
  // The words of the command line are the names of the variables that the application grants.
  const granted = Deno.args, env: Record<string, string | undefined> = {};
  for (const name of granted) if (Deno.env.has(name)) env[name] = Deno.env.get(name);
  defineProperty(Deno, "args", { configurable: true, enumerable: true, writable: true, value: [] });
  process.argv.length = 2;
  // Packages read `process.env.NODE_ENV` and the like; Deno would throw.
  defineProperty(process, "env", { configurable: true, enumerable: true, writable: true, value: env });
  // Deno's own ends the process a moment later, which may be in the next run.
  const { exit } = Deno;
  defineProperty(globalThis, "close", { configurable: true, enumerable: true, writable: true, value: () => exit(0) });
}
