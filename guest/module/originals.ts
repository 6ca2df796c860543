/** Builtins as they were before anything of a model ran: it may replace every one of them. */

const { apply } = Reflect;

// deno-lint-ignore no-explicit-any
type Any = any;

/** A method as a function of what it is called on. */
function plainly(method: Any): Any {
  return Function.prototype.call.bind(method);
}

export const { isArray } = Array;
export const { keys, values, prototype: objectPrototype, defineProperty, freeze, setPrototypeOf } = Object;
export const { getPrototypeOf, ownKeys } = Reflect;
export const call: (f: Any, self: Any, args: Any[]) => Any = apply;
export const { stringify, parse } = JSON;
export const rawJSON: (text: string) => object = (JSON as Any).rawJSON;
export const { isFinite } = Number;
export const text: (value: Any) => string = String;
export const charAt: (text: string, at: number) => string = plainly(String.prototype.charAt);
export const indexOf: (text: string, what: string, from?: number) => number = plainly(String.prototype.indexOf);
export const toWellFormed: (text: string) => string = plainly(String.prototype.toWellFormed);
export const slice: (text: string, from: number, to?: number) => string = plainly(String.prototype.slice);
export const then: (promise: Promise<Any>, done: (value: Any) => Any, failed: (error: Any) => Any) => Promise<Any> =
  plainly(Promise.prototype.then);
export const { inspect } = Deno;
export const Fault = Error;

/** Bytes of a text as UTF-8. */
export const byteLength: (text: string) => number = (Deno as Any)[(Deno as Any).internal].core.byteLength;
