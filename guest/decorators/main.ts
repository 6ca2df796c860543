/** Decorators (TC39, 2023-11) to plain JavaScript: a compiler of its own, loaded for sources that have some. */

import * as babel from "@babel/standalone";

interface Options {
  classic: boolean;
  pragma?: string;
  fragment?: string;
  importSource?: string;
}

/** Throws Babel's errors, which have a `pos`. */
function compile(source: string, options: Options): { code: string; mappings: string } {
  const jsx = options.classic
    ? { runtime: "classic", pragma: options.pragma, pragmaFrag: options.fragment }
    : { runtime: "automatic", importSource: options.importSource ?? "react" };
  const result = babel.transform(source, {
    babelrc: false,
    configFile: false,
    filename: "module.tsx",
    sourceType: "module",
    sourceMaps: true,
    compact: false,
    parserOpts: { allowReturnOutsideFunction: true, plugins: ["typescript", "jsx"] },
    plugins: [
      ["transform-typescript", { isTSX: true, allowDeclareFields: true }],
      ["transform-react-jsx", jsx],
      ["proposal-decorators", { version: "2023-11" }],
    ],
    // deno-lint-ignore no-explicit-any
  } as any);
  return { code: result!.code!, mappings: result!.map!.mappings };
}

export default () => compile;
