/** What a widget may import. Nothing is ever looked for in a file system: there is none (esbuild's browser build has no access to one). */

import type { Loader, Plugin } from "esbuild-wasm";
import { withoutMap } from "./mappings.ts";

/** Part of every widget's page, and of the worker that it is mounted in. */
export const GIVEN = [
  "react",
  "react/jsx-runtime",
  "react/jsx-dev-runtime",
  "react/compiler-runtime",
  "react-dom",
  "react-dom/client",
];
const STYLES = /^tailwindcss(\/(index|preflight|theme|utilities)(\.css)?)?$/;
const LOADERS = new Set<string>(["js", "jsx", "ts", "tsx", "json", "css", "text"]);
const FROM_HOST = "package";

/** What the host answers when it is asked for a module. */
export type Answer = { name: string; code: string; loader: string; side_effects: boolean } | { refused: string };
/** `importer` is empty for the widget itself; `kind` is esbuild's. */
export type Ask = (specifier: string, importer: string, kind: string) => Answer;

export interface Allowed {
  /** Tailwind CSS is on: importing it means nothing, its styles are there. */
  tailwind: boolean;
  /** Asks the host; null: there are no packages. */
  ask: Ask | null;
}

function isPackage(specifier: string): boolean {
  return /^(npm:|jsr:|https?:)/.test(specifier) ||
    /^(@[\w.~-]+\/)?[a-zA-Z][\w.~-]*(@[\w.^~-]+)?(\/[\w./~-]+)?$/.test(specifier);
}

/** Why an import is refused, for the model. */
export function refusal(specifier: string): string {
  const shown = JSON.stringify(specifier.length > 120 ? specifier.slice(0, 117) + "..." : specifier);
  if (STYLES.test(specifier)) {
    return `${shown} cannot be imported: Tailwind CSS is not switched on here (the application does it with plugins=["npm:@tailwindcss/vite@latest"])`;
  }
  if (/^node:/.test(specifier)) return `${shown} cannot be imported: a widget runs in a browser, not in Node.js`;
  if (isPackage(specifier)) {
    return `${shown} cannot be imported: packages are not allowed here (the application's option is allow_package_imports). ` +
      `Use React, which is there, and write the rest yourself`;
  }
  return `${shown} cannot be imported: a widget is one module and there are no files. Put code, data and styles into it`;
}

/** Resolves every import: ours, the host's, or refused. */
export function resolving({ tailwind, ask }: Allowed): Plugin {
  const answers = new Map<string, { code: string; loader: string }>();
  return {
    name: "imports",
    setup(build) {
      build.onResolve({ filter: /.*/ }, ({ path, importer, namespace, kind }) => {
        if (kind === "entry-point") return undefined;
        if (GIVEN.includes(path)) return { path, external: true };
        // The page's policy decides what it loads: nothing, so the fonts that a package's style sheet wants are not there.
        if (kind === "url-token") return { path, external: true };
        if (kind === "import-rule" && /^(https?:)?\/\//.test(path)) return { path, external: true };
        if (tailwind && STYLES.test(path)) return { path, namespace: "nothing" };
        const inside = namespace === FROM_HOST;
        if (!ask || (!inside && STYLES.test(path))) return { errors: [{ text: refusal(path) }] };
        const answer = ask(path, inside ? importer : "", kind);
        if ("refused" in answer) return { errors: [{ text: answer.refused }] };
        answers.set(answer.name, answer);
        return { path: answer.name, namespace: FROM_HOST, sideEffects: answer.side_effects };
      });
      build.onLoad({ filter: /.*/, namespace: "nothing" }, () => ({ contents: "", loader: "js" }));
      build.onLoad({ filter: /.*/, namespace: FROM_HOST }, ({ path }) => {
        const found = answers.get(path);
        if (!found || !LOADERS.has(found.loader)) {
          return { errors: [{ text: `${path} is of no kind that can be imported` }] };
        }
        return { contents: withoutMap(found.code, found.loader), loader: found.loader as Loader };
      });
    },
  };
}
