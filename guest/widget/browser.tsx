/** The part of a widget's page that is the same in every page: React, and mounting. Defines one global, `gloveport`. */

import * as React from "react";
import * as ReactDOM from "react-dom";
import * as client from "react-dom/client";
import * as runtime from "react/jsx-runtime";
import * as devRuntime from "react/jsx-dev-runtime";
import * as compilerRuntime from "react/compiler-runtime";

type Factory = (require: (name: string) => unknown, module: { exports: { default?: unknown } }, exports: unknown) => void;

const MODULES = new Map<string, unknown>([
  ["react", React],
  ["react/jsx-runtime", runtime],
  ["react/jsx-dev-runtime", devRuntime],
  ["react/compiler-runtime", compilerRuntime],
  ["react-dom", ReactDOM],
  ["react-dom/client", client],
]);

function load(name: string): unknown {
  const found = MODULES.get(name);
  if (!found) throw new Error(`${name} is not part of this page`);
  return found;
}

/** What is shown in place of a widget that failed. */
function Failure({ error }: { error: unknown }) {
  const style = { font: "14px/1.5 system-ui, sans-serif", color: "#7f1d1d", background: "#fef2f2", padding: 16, margin: 0 };
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return <pre role="alert" style={{ ...style, whiteSpace: "pre-wrap" }}>This widget failed.{"\n"}{text}</pre>;
}

class Boundary extends React.Component<{ children: React.ReactNode }, { failed: boolean; error: unknown }> {
  override state = { failed: false, error: undefined as unknown };
  static getDerivedStateFromError(error: unknown) {
    return { failed: true, error };
  }
  override render() {
    return this.state.failed ? <Failure error={this.state.error} /> : this.props.children;
  }
}

function mount(factory: Factory): void {
  const root = client.createRoot(document.getElementById("root")!);
  try {
    const module: { exports: { default?: unknown } } = { exports: {} };
    factory(load, module, module.exports);
    const { exports } = module;
    const Widget = (typeof exports === "object" ? exports.default : exports) as React.ComponentType;
    root.render(<Boundary><Widget /></Boundary>);
  } catch (error) {
    root.render(<Failure error={error} />);
  }
}

Object.defineProperty(globalThis, "gloveport", { value: mount });
