/** The React that a widget finds, in its page and where it is mounted before: by the names that it imports. */

import * as React from "react";
import * as ReactDOM from "react-dom";
import * as client from "react-dom/client";
import * as runtime from "react/jsx-runtime";
import * as devRuntime from "react/jsx-dev-runtime";
import * as compilerRuntime from "react/compiler-runtime";

const MODULES = new Map<string, unknown>([
  ["react", React],
  ["react/jsx-runtime", runtime],
  ["react/jsx-dev-runtime", devRuntime],
  ["react/compiler-runtime", compilerRuntime],
  ["react-dom", ReactDOM],
  ["react-dom/client", client],
]);

export function load(name: string): unknown {
  const found = MODULES.get(name);
  if (!found) throw new Error(`${name} is not part of a widget's page`);
  return found;
}
