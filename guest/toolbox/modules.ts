/** A whole module, or a plain script, to what a module worker links. */

import * as acorn from "acorn";
import { transform } from "sucrase";
import { explainModule } from "./explain.ts";
import { locating } from "./compile.ts";
import { positionAt, SourceError } from "./position.ts";
import { decodeMappings, originalOffset, type SourceMap, stripTypes, transformTypes } from "./types.ts";
import { visit } from "./wrapper.ts";

export interface Import {
  specifier: string;
  dynamic: boolean;
  line: number;
  column: number;
}

export interface CompiledModule {
  /** A script has no exports: its body is that of an async function, and its value that of its last statement. */
  kind: "module" | "script";
  code: string;
  /** Of a script: what belongs in front of the function, on one line. */
  head: string;
  /** From lines of `code` to the source; null: they are the same. */
  map: SourceMap | null;
  /** What it imports under names that the source has. */
  imports: Import[];
}

interface JavaScript {
  text: string;
  program: acorn.Program;
  map: SourceMap | null;
  origin: (offset: number) => number;
}

type Comments = (start: number, end: number) => void;

/** Throws `CompileFailure`. */
export function compileModule(sent: string): CompiledModule {
  return locating(sent, (source) => compiled(source), isInComment);
}

function compiled(source: string): CompiledModule {
  const made = toJavaScript(source);
  const { program, map } = made;
  const [text, importer] = withOwnImport(made);
  const exported = program.body.some(({ type }) => type.startsWith("Export"));
  const imports = importsOf(source, made);
  if (exported) {
    refuseReturn(made);
    // At the end: imports are hoisted, and the lines before stay what they are.
    return { kind: "module", code: importer ? `${text}\n${importer}` : text, head: "", map, imports };
  }
  const statements = program.body as acorn.Statement[];
  const declarations = program.body.filter(({ type }) => type === "ImportDeclaration");
  let body = text;
  const heads = declarations.map(({ start, end }) => {
    const declaration = body.slice(start, end);
    body = body.slice(0, start) + declaration.replace(/[^\r\n\u2028\u2029]/g, " ") + body.slice(end);
    return declaration.replace(/[\r\n\u2028\u2029]/g, " ");
  });
  if (importer) heads.push(importer);
  const rest = statements.filter((node) => !declarations.includes(node as never));
  const { code, first } = withValue(body, rest);
  return { kind: "script", code, head: `${heads.join(";")}${heads.length ? ";" : ""}${first}`, map, imports };
}

/**
 * `import(…)` as a call of a function that the worker provides, under a name of the same length: V8 would call back into the
 * worker by itself, but Deno never lets go of a module with such a callback (seen with 2.9.8).
 */
function withOwnImport({ text, program }: JavaScript): [string, string] {
  if (!/\bimport\s*\(/.test(text)) return [text, ""];
  const places: number[] = [];
  visit(program, (node) => {
    if (node.type === "ImportExpression") places.push(node.start);
  });
  if (!places.length) return [text, ""];
  let name = "import";
  for (let i = 10; name === "import" || text.includes(name); i++) name = `$imp${i}`;
  let done = "", from = 0;
  for (const at of places.sort((a, b) => a - b)) {
    done += text.slice(from, at) + name;
    from = at + "import".length;
  }
  return [done + text.slice(from), `import{load as ${name}}from"${LOADER}";`];
}

/** The module that a worker makes for `import(…)`. */
const LOADER = "gloveport:load";

/** Types first, as for sessions. JSX goes another way, which also keeps the lines. */
function toJavaScript(source: string): JavaScript {
  const same = (offset: number) => offset;
  const stripped = stripTypes(source);
  let failure: SourceError;
  try {
    if (stripped.kind === "needs transform") return transformed(source);
    const text = stripped.kind === "stripped" ? stripped.code : source;
    return { text, program: parse(text), map: null, origin: same };
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    failure = error;
  }
  const jsx = source.includes("<") ? fromJsx(source) : null;
  return jsx ?? (/@[\w$(]/.test(source) ? fromDecorated(source) : null) ?? refuse(explainModule(source, failure));
}

function refuse(error: SourceError): never {
  throw error;
}

function transformed(source: string): JavaScript {
  const result = transformTypes(source);
  if (!result) throw new SourceError("this TypeScript cannot be compiled", -1);
  return mapped(source, result.code, result.map);
}

function mapped(source: string, text: string, map: SourceMap): JavaScript {
  const origin = (offset: number) => originalOffset(map, text, source, offset);
  try {
    return { text, program: parse(text), map, origin };
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    throw new SourceError(error.message, origin(error.offset));
  }
}

/** What comments say of JSX. */
function pragmas(source: string) {
  const pragma = /@jsx\s+([\w$.]+)/.exec(source)?.[1];
  return {
    pragma,
    fragment: /@jsxFrag\s+([\w$.]+)/.exec(source)?.[1],
    importSource: /@jsxImportSource\s+([\w@/.:-]+)/.exec(source)?.[1],
    classic: !!pragma || /@jsxRuntime\s+classic\b/.test(source),
  };
}

type Decorating = (source: string, options: ReturnType<typeof pragmas>) => { code: string; mappings: string };
let decorating: Decorating | undefined;

/** The compiler of decorators is a file of its own, the one word of the command line: few sources need its two megabytes. */
function decoratingCompiler(): Decorating | null {
  const [file] = Deno.args;
  if (!file) return null;
  return decorating ??= (0, eval)(Deno.readTextFileSync(file))() as Decorating;
}

/** Null: it does not compile with decorators either. */
function fromDecorated(source: string): JavaScript | null {
  const compiler = decoratingCompiler();
  if (!compiler) return null;
  let made: ReturnType<Decorating>;
  try {
    made = compiler(source, pragmas(source));
  } catch (error) {
    if (typeof (error as { pos?: number }).pos === "number") return null; // the other parser says it better
    throw error;
  }
  return mapped(source, made.code, decodeMappings(made.mappings));
}

/** Null: it is no JSX either. */
function fromJsx(source: string): JavaScript | null {
  const { pragma, fragment, importSource: from, classic } = pragmas(source);
  try {
    const { code, sourceMap } = transform(source, {
      transforms: ["typescript", "jsx"],
      jsxRuntime: classic ? "classic" : "automatic",
      jsxPragma: pragma,
      jsxFragmentPragma: fragment,
      jsxImportSource: from,
      production: true,
      disableESTransforms: true,
      preserveDynamicImport: true,
      filePath: "module.tsx",
      sourceMapOptions: { compiledFilename: "module.js" },
    });
    return mapped(source, code, decodeMappings(sourceMap!.mappings as string));
  } catch {
    return null;
  }
}

function parse(text: string, onComment?: Comments): acorn.Program {
  try {
    return acorn.parse(text, {
      ecmaVersion: "latest",
      sourceType: "module",
      allowReturnOutsideFunction: true,
      allowHashBang: false,
      onComment: onComment && ((_block, _text, start, end) => onComment(start, end)),
    });
  } catch (error) {
    const at = error as SyntaxError & { pos?: number };
    if (!(error instanceof SyntaxError) || typeof at.pos !== "number") throw error;
    throw new SourceError(at.message.replace(/ \(\d+:\d+\)\s*$/, ""), at.pos);
  }
}

/** Acorn says where a `return` is that no function contains only when it is told to refuse it. */
function refuseReturn({ text, origin }: JavaScript): void {
  if (!/\breturn\b/.test(text)) return;
  try {
    acorn.parse(text, { ecmaVersion: "latest", sourceType: "module" });
  } catch (error) {
    const at = error as SyntaxError & { pos?: number };
    if (!(error instanceof SyntaxError) || typeof at.pos !== "number") throw error;
    throw new SourceError(
      "'return' outside of a function: in a module with exports, return from the exported function",
      origin(at.pos),
    );
  }
}

function importsOf(source: string, { program, text, origin }: JavaScript): Import[] {
  if (!/\b(?:import|export)\b/.test(text)) return [];
  const found: Import[] = [];
  visit(program, (node) => {
    const { source: from } = node as acorn.ImportDeclaration;
    if (from?.type !== "Literal" || typeof from.value !== "string") return;
    const { line, column } = positionAt(source, origin(from.start));
    found.push({ specifier: from.value, dynamic: node.type === "ImportExpression", line, column });
  });
  return found.sort((a, b) => a.line - b.line || a.column - b.column);
}

/**
 * The value of a script is that of its last statement, if that is an expression; else of its function `run` or `main`, if it has one.
 * The `return` goes to the end of the statement before it, so that the columns of the last one stay.
 */
function withValue(text: string, statements: acorn.Statement[]): { code: string; first: string } {
  const last = statements.at(-1);
  if (last?.type === "ExpressionStatement") { // also a directive: with nothing after it, it is a text
    const { start, end } = last.expression;
    const open = `;return(`;
    const before = statements.at(-2);
    const closed = `${text.slice(0, end)})${text.slice(end)}`;
    // Parentheses around the expression are not part of it.
    const whole = text.slice(last.start, start) + text.slice(end, last.end);
    if (/[()]/.test(whole)) {
      return { code: `${text.slice(0, last.start)}return ${text.slice(last.start)}`, first: "" };
    }
    if (!before) return { code: closed, first: open };
    return { code: `${closed.slice(0, before.end)}${open}${closed.slice(before.end)}`, first: "" };
  }
  const returns = statements.some(({ type }) => type === "ReturnStatement");
  const entry = returns ? undefined : ENTRIES.find((name) => statements.some((node) => declaresFunction(node, name)));
  return { code: entry ? `${text}\n;return ${entry}(...arguments);` : text, first: "" };
}

/** Functions that a script may leave for others to call. */
const ENTRIES = ["run", "main"];

function declaresFunction(node: acorn.Statement, name: string): boolean {
  if (node.type === "FunctionDeclaration") return node.id.name === name;
  return node.type === "VariableDeclaration" &&
    node.declarations.some(({ id, init }) => id.type === "Identifier" && id.name === name && /Function/.test(init?.type ?? ""));
}

/** Whether a place is inside a comment of a text that is a module as it stands. */
function isInComment(source: string, offset: number): boolean {
  const stripped = stripTypes(source);
  let inside = false;
  try {
    parse(stripped.kind === "stripped" ? stripped.code : source, (start, end) => {
      inside ||= start < offset && offset < end;
    });
    return inside;
  } catch {
    return false;
  }
}
