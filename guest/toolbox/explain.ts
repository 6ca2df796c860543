/** Why a source is not a session's code, said for the model that wrote it. Only runs when compiling has failed. */

import { parse, type ParserOptions } from "@babel/parser";
import { SourceError } from "./position.ts";
import { compilerError } from "./types.ts";
import { NO_MODULES, orStrayBrace, unwrap, unwrapError, wrapForParsing } from "./wrapper.ts";

type Plugins = NonNullable<ParserOptions["plugins"]>;
const TYPESCRIPT: Plugins = ["typescript"];
const NO_JSX = "JSX is not available in a session: return data, or build strings";
const NO_DECORATORS = "decorators are not supported: call the function yourself";

interface BabelError extends SyntaxError {
  pos: number;
}

/** What a TypeScript parser says; null when it accepts the source. */
function typeScriptError(source: string, plugins: Plugins): BabelError | null {
  return parseError(wrapForParsing(source), { plugins });
}

/** The same for the source without our wrapper around it. */
function bareError(source: string): BabelError | null {
  return parseError(source, {
    plugins: TYPESCRIPT,
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
  });
}

function parseError(text: string, options: ParserOptions): BabelError | null {
  try {
    parse(text, { sourceType: "script", attachComment: false, ...options });
  } catch (error) {
    if (error instanceof RangeError) throw error; // nested too deeply
    // A bug of the parser (seen with 8.1.3: a TypeError) says nothing about the source.
    if (typeof (error as BabelError).pos === "number") return error as BabelError;
  }
  return null;
}

/**
 * The error to report for a source that does not compile. `plain` is what the JavaScript parser says of it: the better
 * answer, unless it stopped at the first type.
 */
export function explain(source: string, plain: SourceError): SourceError {
  const typed = typeScriptError(source, TYPESCRIPT);
  if (!typed) return inOurWords(further(plain, compilerError(source)));
  const tag = source.includes("<") ? firstTag(source) : -1;
  if (tag >= 0) return new SourceError(NO_JSX, tag);
  const said = orStrayBrace(unwrapError(source, typed.message, typed.pos), source, () => bareError(source)?.pos);
  if (/decorators/.test(said.message)) return new SourceError(NO_DECORATORS, said.offset);
  return inOurWords(further(plain, said));
}

/** The same for a module. */
export function explainModule(source: string, plain: SourceError): SourceError {
  const options: ParserOptions = { sourceType: "module", allowReturnOutsideFunction: true };
  const typed = parseError(source, { ...options, plugins: TYPESCRIPT });
  if (!typed) return further(plain, compilerError(source));
  const more: Plugins = [...TYPESCRIPT, ...(source.includes("<") ? ["jsx" as const] : []), "decorators"];
  const both = parseError(source, { ...options, plugins: more });
  const said = both && both.pos > typed.pos ? both : typed;
  return further(plain, new SourceError(said.message.replace(/ \(\d+:\d+\)\s*$/, ""), said.pos));
}

/** The verdict that got further into the source: it understood more of it. */
function further(first: SourceError, second: SourceError | null): SourceError {
  return second && second.offset > first.offset ? second : first;
}

/** Where the first JSX element is, in a source that is right but for JSX; else -1. */
function firstTag(source: string): number {
  try {
    const plugins: Plugins = [...TYPESCRIPT, "jsx"];
    const ast = parse(wrapForParsing(source), { sourceType: "script", attachComment: false, tokens: true, plugins });
    const tokens = (ast.tokens ?? []) as Array<{ start: number; type: { label: string } }>;
    const tag = tokens.find(({ type }) => type.label === "jsxTagStart");
    return tag ? unwrapError(source, "", tag.start).offset : -1;
  } catch {
    return -1;
  }
}

/** Replaces what a parser says about modules, in whatever words, by what to do instead. */
export function inOurWords(error: SourceError): SourceError {
  if (/import\.meta|'import' and 'export'|import or export|import declaration/.test(error.message)) {
    return new SourceError(NO_MODULES, error.offset);
  }
  return error;
}

/** Whether a source is a module: it has `import` or `export` declarations with run-time meaning, or `import.meta`. */
export function isModule(source: string): boolean {
  if (!/\b(?:import|export)\b/.test(source)) return false;
  for (const plugins of [[...TYPESCRIPT, "jsx"] as Plugins, TYPESCRIPT]) {
    try {
      const { program, errors } = parse(source, {
        sourceType: "module",
        plugins,
        errorRecovery: true,
        createImportExpressions: true,
        allowReturnOutsideFunction: true,
        attachComment: false,
      });
      const meta = /\bimport\s*\.\s*meta\b/.test(source) && !errors?.length;
      return meta ||
        program.body.some((node) =>
          /^(?:Import|Export|TSExport|TSImport)/.test(node.type) &&
          !("importKind" in node && node.importKind === "type")
        );
    } catch {
      // try without JSX, where `<T>value` is a type assertion
    }
  }
  return /^[ \t]*(?:import\b(?!\s*\()|export\b)/m.test(source);
}

/**
 * `const enum` as `enum`, in place. The compiler inlines the members of the former and drops the declaration, but later runs
 * of the session may use it.
 */
export function keepConstEnums(source: string): string {
  if (!/\bconst\s+enum\b/.test(source)) return source;
  const ast = parse(wrapForParsing(source), {
    sourceType: "script",
    plugins: TYPESCRIPT,
    tokens: true,
    errorRecovery: true,
  });
  const tokens = (ast.tokens ?? []) as Array<{ start: number; end: number; value?: unknown; type: { label: string } }>;
  const text = wrapForParsing(source).split("");
  tokens.forEach((token, at) => {
    if (token.type.label === "const" && tokens[at + 1]?.value === "enum") text.fill(" ", token.start, token.end);
  });
  return unwrap(text.join(""));
}

/** Throws `SourceError` unless a source parses as TypeScript declarations. */
export function checkDeclarations(source: string): void {
  try {
    parse(source, { sourceType: "script", plugins: [["typescript", { dts: true }]], attachComment: false });
  } catch (error) {
    const at = error as BabelError;
    if (typeof at.pos !== "number") throw error;
    throw new SourceError(at.message.replace(/ \(\d+:\d+\)\s*$/, ""), at.pos);
  }
}
