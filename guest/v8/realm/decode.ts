/** JSON from the host to values: the engine's parser, then one pass that replaces `{"$": tag, "v": ...}`. Made from intrinsics only. */

import {
  type Any,
  BigInt,
  Date,
  defineProperty,
  Error,
  fromBase64,
  hasOwn,
  hidden,
  indexOf,
  isArray,
  keys,
  Map,
  mapSet,
  parse,
  Set,
  setAdd,
  TypeError,
} from "./intrinsics.ts";

export function decode(json: string): unknown {
  const value = parse(json);
  return indexOf(json, '"$"') < 0 ? value : revive(value);
}

function malformed(): TypeError {
  return new TypeError("malformed value from the host");
}

function revive(value: Any): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (!isArray(value) && hasOwn(value, "$") && typeof value.$ === "string") {
    const inner = hasOwn(value, "v") ? value.v : undefined;
    return value.$ === "object" ? members(inner) : untagged(value.$, inner);
  }
  return members(value);
}

function members(value: Any): unknown {
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      if (typeof value[i] === "object") value[i] = revive(value[i]); // an own element: no setter is found
    }
    return value;
  }
  const names = keys(value);
  for (let i = 0; i < names.length; i++) {
    const item = value[names[i]];
    if (typeof item === "object" && item !== null) {
      defineProperty(value, names[i], { __proto__: null, value: revive(item) } as Any);
    }
  }
  return value;
}

function untagged(tag: string, inner: Any): unknown {
  switch (tag) {
    case "undefined":
      return undefined;
    case "number":
      return inner === "-0" ? -0 : inner === "Infinity" ? Infinity : inner === "-Infinity" ? -Infinity : NaN;
    case "bigint":
      return BigInt(inner);
    case "date":
      return new Date(typeof inner === "number" ? inner : NaN);
    case "bytes":
      return fromBase64(inner);
    case "map":
    case "set":
      return collection(members(inner), tag === "map");
    case "error":
      return madeError(ownText(inner, "name"), ownText(inner, "message") ?? "", undefined);
  }
  throw malformed();
}

function collection(items: Any, isMap: boolean): unknown {
  if (!isArray(items)) throw malformed();
  const made = isMap ? new Map() : new Set();
  for (let i = 0; i < items.length; i++) {
    if (!isMap) setAdd(made, items[i]);
    else if (isArray(items[i]) && items[i].length === 2) mapSet(made, items[i][0], items[i][1]);
    else throw malformed();
  }
  return made;
}

export function ownText(object: Any, name: string): string | undefined {
  return typeof object === "object" && object !== null && hasOwn(object, name) && typeof object[name] === "string"
    ? object[name]
    : undefined;
}

/** `new Error(message)` with an own `name`, and a stack of ours instead of the engine's. */
export function madeError(name: string | undefined, message: string, stack: string | undefined): Error {
  const error = new Error(message);
  if (name !== undefined) hidden(error, "name", name);
  hidden(error, "stack", stack);
  return error;
}
