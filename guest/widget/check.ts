/**
 * A worker for one widget: it has a document, loads the widget, mounts it, says how that went, and ends.
 * It is in a jail of its own, and everything that it says may be the widget's doing.
 */

import "./prepare.ts";
import { completeDocument } from "./canvas.ts";
import { hideHost, installDocument } from "./dom.ts";
import { ready, receive, send } from "../shared/messages.ts";
import { mount } from "./mount.ts";
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { flushSync } from "react-dom";
import { renderToString } from "react-dom/server.edge";

const { exit } = Deno;
const on = globalThis.addEventListener.bind(globalThis);

/** Renders something of its own, so that React is compiled before a widget waits for it. */
function warmUp(): void {
  const sample = createElement("p", { style: { color: "red" }, onClick: () => {} }, "text");
  renderToString(sample);
  const root = createRoot(document.createElement("div"));
  flushSync(() => root.render(sample));
  flushSync(() => root.unmount());
}

installDocument();
completeDocument();
warmUp();
ready();
const request = receive();
if (!request) exit(0);
hideHost();
mount(request!.code as string, on).then(
  (verdict) => {
    send({ ...verdict });
    exit(0);
  },
  () => exit(1), // the widget broke what checks it: at once, not at the timeout
);
