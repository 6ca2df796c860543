/** The names that code declares at its top level: those that later runs of the session see. */

import type * as acorn from "acorn";
import { SourceError } from "./position.ts";
import { type Binding, offsetOf } from "./wrapper.ts";

/** Legal as variables of sloppy functions, but as names of a session they would change what later code means. */
const REFUSED = new Set(["arguments", "eval", "undefined", "NaN", "Infinity", "let"]);

/**
 * Bindings in the order of their declaration. Functions declared inside blocks belong to their block, also in sloppy code:
 * whether they are visible outside depends on whether the block ran.
 */
export function topLevelBindings(statements: acorn.Statement[]): Binding[] {
  const found = new Map<string, Binding>();
  const add = (id: acorn.Identifier, writable = true) => {
    if (REFUSED.has(id.name)) throw new SourceError(`'${id.name}' cannot be declared at the top level`, offsetOf(id));
    if (!found.has(id.name)) found.set(id.name, { name: id.name, start: offsetOf(id), writable });
  };
  for (let statement of statements) {
    while (statement.type === "LabeledStatement") statement = statement.body; // a labelled function is like an unlabelled one
    if (statement.type === "VariableDeclaration") declared(statement, add);
    else if (statement.type === "ClassDeclaration") add(statement.id);
    else if (statement.type === "FunctionDeclaration") add(statement.id);
    else hoisted(statement, add);
  }
  return [...found.values()];
}

type Add = (id: acorn.Identifier, writable?: boolean) => void;

function declared(declaration: acorn.VariableDeclaration, add: Add): void {
  const writable = declaration.kind !== "using" && declaration.kind !== "await using";
  for (const { id } of declaration.declarations) inPattern(id, (name) => add(name, writable));
}

function inPattern(pattern: acorn.Pattern, add: Add): void {
  switch (pattern.type) {
    case "Identifier":
      return add(pattern);
    case "ObjectPattern":
      return pattern.properties.forEach((part) => inPattern(part.type === "RestElement" ? part : part.value, add));
    case "ArrayPattern":
      return pattern.elements.forEach((part) => part && inPattern(part, add));
    case "AssignmentPattern":
      return inPattern(pattern.left, add);
    case "RestElement":
      return inPattern(pattern.argument, add);
  }
}

/** `var` inside statements belongs to the whole function. */
function hoisted(node: acorn.Node | null | undefined, add: Add): void {
  const each = (nodes: Array<acorn.Node | null | undefined>) => nodes.forEach((child) => hoisted(child, add));
  const part = node as acorn.Statement | null | undefined;
  switch (part?.type) {
    case "VariableDeclaration":
      return part.kind === "var" ? declared(part, add) : undefined;
    case "BlockStatement":
      return each(part.body);
    case "IfStatement":
      return each([part.consequent, part.alternate]);
    case "ForStatement":
      return each([part.init, part.body]);
    case "ForInStatement":
    case "ForOfStatement":
      return each([part.left, part.body]);
    case "WhileStatement":
    case "DoWhileStatement":
    case "WithStatement":
    case "LabeledStatement":
      return each([part.body]);
    case "SwitchStatement":
      return part.cases.forEach((branch) => each(branch.consequent));
    case "TryStatement":
      return each([part.block, part.handler?.body, part.finalizer]);
  }
}
