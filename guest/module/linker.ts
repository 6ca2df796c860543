/** Which module an `import` means. */

import { builtinModules } from "node:module";
import vm from "node:vm";
import { keys } from "./originals.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

const { SourceTextModule, SyntheticModule } = vm as Any;
const folder = Deno.cwd(); // /workspace; without a jail its own path
const WORKSPACE = `file://${folder}/`;
const BUILTIN = new Set(builtinModules);

/** An import that is not allowed, or that leads nowhere. */
export class ImportRefused extends Error {
  constructor(message: string, readonly specifier: string) {
    super(message);
    this.name = "ImportRefused";
  }
}

/** What a run may import beyond what is built in: specifier to a URL that Deno loads. */
let table: Record<string, string> = {};
let packages = false;

export function allow(resolve: Record<string, string>, any: boolean): void {
  table = resolve;
  packages = any;
}

const loaded = new Map<string, Any>();

/** A module that Deno loads, for our own to link to. */
async function native(url: string, attributes?: Record<string, string>): Promise<Any> {
  const key = `${url} ${attributes?.type ?? ""}`;
  let module = loaded.get(key);
  if (module) return module;
  const namespace = await (attributes?.type ? import(url, { with: attributes }) : import(url));
  // Of a builtin, what its default export has: some of that is ours.
  const whole = url.startsWith("node:") && typeof namespace.default === "object" ? namespace.default : {};
  module = await synthetic({ ...namespace, ...pick(whole, keys(namespace)) }, url);
  loaded.set(key, module);
  return module;
}

function pick(whole: Any, names: string[]): Any {
  const picked: Any = {};
  for (let i = 0; i < names.length; i++) if (names[i] !== "default" && names[i] in whole) picked[names[i]] = whole[names[i]];
  return picked;
}

async function synthetic(namespace: Any, identifier: string): Promise<Any> {
  const names = keys(namespace);
  const module = new SyntheticModule(names, function (this: Any) {
    for (let i = 0; i < names.length; i++) this.setExport(names[i], namespace[names[i]]);
  }, { identifier });
  await module.link(() => {});
  await module.evaluate();
  return module;
}

/** What comes with the package: source text of a module whose default export loads each of its parts, by specifier. */
let source = "";
let parts: readonly string[] = [];

export function provide(text: string, specifiers: readonly string[]): void {
  source = text;
  parts = specifiers;
}

let bundle: Promise<Any> | undefined;

async function evaluated(): Promise<Any> {
  const module = new SourceTextModule(source, { identifier: "npm:react" });
  await module.link(() => {});
  await module.evaluate();
  return module.namespace.default;
}

async function own(specifier: string): Promise<Any> {
  const known = loaded.get(specifier);
  if (known) return known;
  const namespace = await (await (bundle ??= evaluated()))[specifier]();
  const module = await synthetic(namespace, `npm:${specifier}`);
  loaded.set(specifier, module);
  return module;
}

function refusal(specifier: string): ImportRefused {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(specifier)?.[1]?.toLowerCase();
  const local = scheme === "file" || /^[./]/.test(specifier);
  if (local) return new ImportRefused(`cannot import "${specifier}": only files of the workspace (${WORKSPACE}) are readable`, specifier);
  const why = packages
    ? "no package of that name is allowed or installed"
    : "package imports are off (allow_package_imports=True allows npm:, jsr: and https: modules)";
  return new ImportRefused(`cannot import "${specifier}": ${why}. Available: node: modules, ${parts.join(", ")}`, specifier);
}

export async function resolve(specifier: string, attributes?: Record<string, string>): Promise<Any> {
  const plain = specifier.replace(/^npm:(?=react)|(?<=^(?:npm:)?react(?:-dom)?)@\^?19(?:\.[\d.]+)?(?=\/|$)/g, "");
  if (parts.includes(plain)) return await own(plain);
  if (Object.hasOwn(table, specifier)) return await native(table[specifier], attributes);
  if (specifier.startsWith("node:") || BUILTIN.has(specifier)) {
    return await attempt(specifier, specifier.startsWith("node:") ? specifier : `node:${specifier}`);
  }
  if (/^(?:data|blob):/i.test(specifier)) return await attempt(specifier, specifier, attributes);
  if (/^\.{0,2}\//.test(specifier) || specifier.startsWith("file:")) {
    const url = new URL(specifier, WORKSPACE).href;
    if (url.startsWith(WORKSPACE)) return await attempt(specifier, url, attributes);
  }
  throw refusal(specifier);
}

async function attempt(specifier: string, url: string, attributes?: Record<string, string>): Promise<Any> {
  try {
    return await native(url, attributes);
  } catch (error) {
    const said = error as Error;
    // An error of the module itself is its own; what Deno says of loading is a TypeError without a place in a module.
    if (said instanceof TypeError || said instanceof SyntaxError) {
      const shown = specifier.length > 100 ? `${specifier.slice(0, 100)}…` : specifier;
      throw new ImportRefused(`cannot import "${shown}": ${said.message}`, specifier);
    }
    throw error;
  }
}

let ownLoader: Promise<Any> | undefined;

function loader(): Promise<Any> {
  return ownLoader ??= synthetic({ load }, LOADER);
}

/** What the compiler has made of `import(…)`. */
const LOADER = "gloveport:load";

async function load(specifier: unknown, options?: Any): Promise<Any> {
  return (await resolve(`${specifier}`, options?.with)).namespace;
}

/** Links a source, without running it. Throws what its imports, or its syntax, are refused with. */
export async function link(source: string, name: string, lineOffset: number): Promise<Any> {
  const module = new SourceTextModule(source, {
    identifier: `${WORKSPACE}${name}`,
    lineOffset,
    initializeImportMeta(meta: Any) {
      meta.url = `${WORKSPACE}${name}`;
      meta.filename = `${folder}/${name}`;
      meta.dirname = folder;
      meta.main = false;
      meta.resolve = (specifier: string) => new URL(specifier, WORKSPACE).href;
    },
  });
  await module.link((specifier: string, _from: Any, extra: Any) =>
    specifier === LOADER ? loader() : resolve(specifier, extra?.attributes)
  );
  return module;
}
