/** React for modules: each of its entry points, loaded when it is first wanted. One bundle, so there is one React. */

// deno-lint-ignore no-explicit-any
const modules: Record<string, () => Promise<any>> = {
  "react": () => import("react"),
  "react/jsx-runtime": () => import("react/jsx-runtime"),
  // The one for development does not work in a production build.
  "react/jsx-dev-runtime": async () => {
    const { jsx, Fragment } = await import("react/jsx-runtime");
    return { jsxDEV: jsx, Fragment, default: { jsxDEV: jsx, Fragment } };
  },
  "react-dom": () => import("react-dom"),
  "react-dom/client": () => import("react-dom/client"),
  // The one for browsers opens a MessageChannel, and with that open nobody can tell that a promise will never resolve.
  "react-dom/server": () => import("react-dom/server.edge"),
};

export default modules;
