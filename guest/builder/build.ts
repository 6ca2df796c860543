/** One module of a model into one script. */

import * as esbuild from "esbuild-wasm/esm/browser.js";
import type { BuildOptions, BuildResult, Message } from "esbuild-wasm";
import { extractCode } from "../toolbox/fence.ts";
import { positionAt, SourceError } from "../toolbox/position.ts";
import { type Allowed, GIVEN, resolving } from "./imports.ts";
import { decode, type Mapping, withoutMap } from "./mappings.ts";
import { styles } from "./tailwind.ts";

const NAME = "widget.tsx";
const OPTIONS: BuildOptions = {
  bundle: true,
  write: false,
  metafile: true,
  format: "cjs",
  platform: "browser",
  target: "es2022",
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"', "global": "globalThis" }, // what packages expect of every bundler
  // Names stay: React's warnings and stacks speak of components by them.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: "none",
  charset: "ascii",
  sourcemap: "external",
  sourcesContent: false,
  tsconfigRaw: { compilerOptions: { alwaysStrict: true } }, // a module is strict, also as the body of a function
  outfile: "/widget.js",
  logLevel: "silent",
  logLimit: 5,
};

export interface Built {
  code: string;
  /** The same as the content of a `<script>`, where that differs. */
  page: string | null;
  css: string;
  map: Mapping;
}

/** A source that cannot become a widget; 1-based line and column (in characters) of it as it was sent, 0: unknown. */
export class BuildFailure extends Error {
  constructor(message: string, readonly line = 0, readonly column = 0) {
    super(message);
  }
}

/**
 * esbuild's compiler is spoken to by `setTimeout` without a delay, which takes a millisecond each time: for every import of a package, twice
 * (esbuild-wasm 0.28.2, Deno 2.9.8). What it says comes from the compiler's own calls, so what it is told has to wait until these are over.
 */
function withoutDelay(): void {
  const { setTimeout } = globalThis;
  const soon = (callback: () => void, delay?: number) => delay ? setTimeout(callback, delay) : queueMicrotask(callback);
  globalThis.setTimeout = soon as typeof setTimeout;
}

export async function start(wasm: URL): Promise<void> {
  withoutDelay();
  const wasmModule = await WebAssembly.compile(Deno.readFileSync(wasm));
  await esbuild.initialize({ wasmModule, worker: false });
}

/** `css` is null without Tailwind CSS. */
export async function build(sent: string, allowed: Allowed, css: string | null): Promise<Built> {
  const { source, result } = await bundled(sent, allowed);
  const map = JSON.parse(output(result, "/widget.js.map")) as { sources: string[]; mappings: string };
  const code = output(result, "/widget.js");
  return {
    code,
    page: UNFIT.test(code) ? await forPage(source, allowed) : null,
    css: (css === null ? "" : await styles(source, css)) + output(result, "/widget.css"),
    map: decode(map.mappings, map.sources.findIndex((path) => path === NAME)),
  };
}

function output(result: BuildResult, path: string): string {
  return result.outputFiles!.find((file) => file.path === path)?.text ?? "";
}

/** What ends a script, and what a page does not give back: HTML makes U+FFFD of NUL and LF of CR, and the script's hash is another one. */
const UNFIT = /<!--|<\/script|[\0\r]/i;

/** Without template literals, whose raw text would change: what is left are strings, regular expressions and comments of licences. */
async function forPage(source: string, allowed: Allowed): Promise<string> {
  const result = await run(source, { plugins: [resolving(allowed)], supported: { "template-literal": false } });
  if ("failure" in result) throw result.failure;
  return output(result.made, "/widget.js")
    .replace(/\\?(<!--|\0)/g, escaped)
    .replace(/<\/(?=script)/gi, "<\\/")
    .replace(/\r\n?/g, "\n"); // no literal has one in it
}

/** In a regular expression it may have been escaped before, by a backslash that then has to go. */
function escaped(found: string, what: string, at: number, code: string): string {
  let start = at;
  while (code[start - 1] === "\\") start -= 1;
  const before = found.length - what.length; // 0 or 1
  const kept = (at + before - start) % 2 ? "" : found.slice(0, before);
  return kept + (what === "\0" ? "\\x00" : "\\x3C!--");
}

/**
 * A text with a fence may be JavaScript as it stands, with the fence in a comment, and then exports something. Or it is Markdown; that
 * may be JavaScript too (a label, an empty template as a tag), which exports nothing.
 */
async function bundled(sent: string, allowed: Allowed): Promise<{ source: string; result: BuildResult }> {
  if (!sent.includes("```")) return { source: sent, result: await attempt(sent, allowed) };
  try {
    const result = await attempt(sent, allowed);
    if (/\bmodule\.exports\b/.test(output(result, "/widget.js"))) return { source: sent, result };
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
  }
  const source = unfenced(sent);
  return { source, result: await attempt(source, allowed) };
}

/** The code inside of Markdown, on the same lines. */
function unfenced(sent: string): string {
  try {
    return extractCode(sent.replace(/^\ufeff/, ""), () => false);
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    const { line, column } = positionAt(sent, error.offset);
    throw new BuildFailure(error.message, line, column);
  }
}

async function attempt(source: string, allowed: Allowed): Promise<BuildResult> {
  const plain = await plainly(source);
  if (plain) return plain;
  const result = await run(source, { plugins: [resolving(allowed)] });
  if ("failure" in result) throw result.failure;
  return result.made;
}

/**
 * Without a plugin, whose calls take three times as long as the rest. What it makes counts only if it imports nothing but what is
 * given, which its report says; all else, failures too, is for the plugin to judge.
 */
async function plainly(source: string): Promise<BuildResult | null> {
  const result = await run(source, { external: GIVEN });
  if ("failure" in result) return null;
  const { inputs, outputs } = result.made.metafile!;
  const imports = Object.values(outputs).flatMap((output) => output.imports);
  const known = imports.every(({ path, external }) => external && GIVEN.includes(path));
  return known && Object.keys(inputs).length === 1 ? result.made : null;
}

async function run(sent: string, more: BuildOptions): Promise<{ made: BuildResult } | { failure: BuildFailure }> {
  const contents = withoutMap(sent.replace(/^(\s*)#!/, "$1//"), "tsx"); // a script's first line is not that of a page
  try {
    return { made: await esbuild.build({ ...OPTIONS, ...more, stdin: { contents, loader: "tsx", sourcefile: NAME } }) };
  } catch (error) {
    const errors = (error as { errors?: Message[] }).errors;
    if (!errors?.length) throw error;
    return { failure: explained(errors[0]!, sent) };
  }
}

const WORDS: [RegExp, string][] = [
  [
    /^Top-level await is currently not supported/,
    "a widget cannot wait at its top level: load data in an effect (useEffect)",
  ],
];

function explained({ text, location }: Message, source: string): BuildFailure {
  const said = WORDS.find(([pattern]) => pattern.test(text))?.[1] ?? text.replaceAll(/<stdin>/g, NAME);
  if (!location || location.file !== NAME) {
    const file = location?.file.replace(/^package:/, ""); // that is the plugin's namespace
    return new BuildFailure(file ? `${file}: ${said}` : said);
  }
  const end = positionAt(source, source.length);
  if (location.line > end.line) return new BuildFailure(said, end.line, end.column); // at the end of what was added
  const before = new TextEncoder().encode(location.lineText).subarray(0, location.column); // it counts bytes
  return new BuildFailure(said, location.line, [...new TextDecoder().decode(before)].length + 1);
}
