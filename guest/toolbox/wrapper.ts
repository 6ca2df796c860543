/** The function that model code becomes the body of, and the proof that it is the body of that one function. */

import * as acorn from "acorn";
import { SourceError } from "./position.ts";

/** Names that start so belong to the wrapper. */
export const RESERVED_PREFIX = "__gloveport";
const PUBLISH = `${RESERVED_PREFIX}_publish`;
const VALUE = `${RESERVED_PREFIX}_value`;
const OPEN = `(async(${PUBLISH})=>{`;
const CLOSE = "\n})";

/** A top-level name of the code. */
export interface Binding {
  name: string;
  /** Offset of the declaration. */
  start: number;
  /** `using` bindings can be read, not assigned. */
  writable: boolean;
}

export interface Body {
  statements: acorn.Statement[];
  strict: boolean;
}

/** Moves an error to the body's own offsets, and rids it of what only the wrapper explains. */
export function unwrapError(body: string, message: string, wrappedOffset: number): SourceError {
  const offset = wrappedOffset - OPEN.length - 1;
  const text = inPlainWords(message);
  if (offset >= body.length) return new SourceError("Unexpected end of input", body.trimEnd().length);
  if (text !== "Unexpected token") return new SourceError(text, Math.max(0, offset));
  const token = /^(?:[\p{ID_Continue}$]+|=>|[^\s])/u.exec(body.slice(Math.max(0, offset)))?.[0];
  return new SourceError(token ? `Unexpected token '${token}'` : text, Math.max(0, offset));
}

function inPlainWords(message: string): string {
  const text = message.replace(/ \(\d+:\d+\)\s*$/, "");
  const jump = /^Unsyntactic (break|continue)$/.exec(text)?.[1];
  return jump ? `'${jump}' without a loop or label that it could mean` : text;
}

/**
 * The true cause may be a `}` too many before that place, which closed our function. `parseAlone` parses the body without
 * the wrapper and gives the offset where that fails.
 */
export function orStrayBrace(error: SourceError, body: string, parseAlone: () => number | undefined): SourceError {
  const offset = parseAlone();
  return offset !== undefined && offset < error.offset && body[offset] === "}"
    ? new SourceError("Unexpected token '}'", offset)
    : error;
}

/** The body inside the wrapper, as the parsers see it: top-level `await`, `return` and `using` are legal in it. */
export function wrapForParsing(body: string): string {
  return `${OPEN}\n${body}${CLOSE}`;
}

/** The opposite of `wrapForParsing`. */
export function unwrap(wrapped: string): string {
  return wrapped.slice(OPEN.length + 1, -CLOSE.length);
}

/**
 * Parses a body and proves that it cannot leave its function: the whole text must be one parenthesised async arrow
 * function whose closing brace is ours. Throws `SourceError` with offsets in the body.
 */
export function parseBody(body: string, onComment?: (start: number, end: number) => void): Body {
  const wrapped = wrapForParsing(body);
  let htmlComment = -1;
  let program: acorn.Program;
  try {
    program = acorn.parse(wrapped, {
      ecmaVersion: "latest",
      sourceType: "script",
      allowHashBang: false,
      preserveParens: true,
      onComment(block, _text, start, end) {
        if (!block && wrapped[start] !== "/" && htmlComment < 0) htmlComment = start;
        onComment?.(start - OPEN.length - 1, end - OPEN.length - 1);
      },
    });
  } catch (error) {
    if (htmlComment < 0) throw acornError(body, error);
  }
  // Engines do not agree on where these are comments, and code that one parser skips is code that another one runs.
  if (htmlComment >= 0) {
    throw unwrapError(body, "HTML-like comments (<!-- and -->) are not supported: write // instead", htmlComment);
  }
  return onlyFunction(program!, body, wrapped);
}

function onlyFunction(program: acorn.Program, body: string, wrapped: string): Body {
  const first = program.body[0];
  const outer = first?.type === "ExpressionStatement" ? first.expression : undefined;
  const arrow = outer?.type === "ParenthesizedExpression" ? outer.expression : undefined;
  if (
    program.body.length === 1 && arrow?.type === "ArrowFunctionExpression" && arrow.async && arrow.start === 1 &&
    arrow.body.type === "BlockStatement" && arrow.body.start === OPEN.length - 1 &&
    arrow.body.end === wrapped.length - 1 && outer!.end === wrapped.length
  ) {
    const statements = arrow.body.body;
    const strict = statements.some((node) => "directive" in node && node.directive === "use strict");
    return { statements, strict };
  }
  throw unwrapError(body, "Unexpected token", closingBrace(program));
}

/** Offset of the brace that closed our function too early. */
function closingBrace(program: acorn.Program): number {
  let found = OPEN.length + 1;
  visit(program, (node) => {
    if (node.type === "ArrowFunctionExpression" && node.start === 1) {
      found = (node as acorn.ArrowFunctionExpression).body.end - 1;
    }
  });
  return found;
}

function acornError(body: string, error: unknown): unknown {
  const at = error as SyntaxError & { pos?: number };
  if (!(error instanceof SyntaxError) || typeof at.pos !== "number") return error;
  return orStrayBrace(unwrapError(body, at.message, at.pos), body, () => {
    try {
      acorn.parse(body, { ecmaVersion: "latest", allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true });
    } catch (alone) {
      return (alone as { pos?: number }).pos;
    }
  });
}

/** Calls `enter` for every node, parents first. An own stack: the code decides how deep its tree is. */
export function visit(root: acorn.Node, enter: (node: acorn.Node) => void): void {
  const stack: acorn.Node[] = [root];
  for (let node = stack.pop(); node; node = stack.pop()) {
    enter(node);
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) {
        if (typeof child?.type === "string") stack.push(child);
      }
    }
  }
}

/** Refuses what the wrapper cannot allow or the engines do not have. Offsets are those of the body. */
export function refuseReserved(body: string, statements: acorn.Statement[]): void {
  const names = body.includes(RESERVED_PREFIX) || body.includes("\\u");
  if (!names && !/\bimport\b/.test(body)) return;
  for (const statement of statements) {
    visit(statement, (node) => {
      const offset = node.start - OPEN.length - 1;
      if (node.type === "ImportExpression") throw new SourceError(NO_MODULES, offset);
      if (node.type === "Identifier" && (node as acorn.Identifier).name.startsWith(RESERVED_PREFIX)) {
        throw new SourceError(`names that start with ${RESERVED_PREFIX} are reserved`, offset);
      }
    });
  }
}

export const NO_MODULES = "import/export are not available in a session: call the declared tools";

/**
 * What the engine evaluates: a prelude line, the body, a closing line. Each top-level name is handed over as a getter and a
 * setter, closures over the variable itself, so that later runs see the live binding and its temporal dead zone.
 * The publish function is gone before the code starts: not even a direct `eval` finds it.
 */
export function emit(body: string, strict: boolean, bindings: Binding[]): string {
  const entries = bindings.map(({ name, writable }) => {
    // `__proto__:` in a literal would set the prototype; a computed key defines the property.
    const key = name === "__proto__" ? '["__proto__"]' : name;
    return writable ? `,${key}:[()=>${name},${VALUE}=>{${name}=${VALUE}}]` : `,${key}:[()=>${name}]`;
  });
  const directive = strict ? '"use strict";' : "";
  return `${OPEN}${directive}${PUBLISH}({__proto__:null${entries.join("")}});${PUBLISH}=void 0;\n${body}${CLOSE}`;
}

/**
 * A script's value is that of its last statement, if that is an expression (and no directive). Columns on its line move by
 * the length of `return `.
 */
export function returnLast(text: string, { statements }: Body): string {
  const last = statements.at(-1);
  if (last?.type !== "ExpressionStatement" || "directive" in last && last.directive) return text;
  const at = offsetOf(last);
  return `${text.slice(0, at)}return ${text.slice(at)}`;
}

/** Offset in a body of an acorn node that was parsed inside the wrapper. */
export function offsetOf(node: acorn.Node): number {
  return node.start - OPEN.length - 1;
}
