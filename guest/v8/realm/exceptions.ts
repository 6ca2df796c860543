/** `DOMException`, which the other Web classes throw: https://webidl.spec.whatwg.org/#idl-DOMException */

import {
  type Any,
  construct,
  defineProperty,
  Error,
  ErrorPrototype,
  getterIn,
  hidden,
  setProto,
  Symbol,
} from "./intrinsics.ts";
import { setDOMException, setExceptionData } from "./looking.ts";

const NAMES = (
  "IndexSizeError,,HierarchyRequestError,WrongDocumentError,InvalidCharacterError,,NoModificationAllowedError,NotFoundError," +
  "NotSupportedError,InUseAttributeError,InvalidStateError,SyntaxError,InvalidModificationError,NamespaceError,InvalidAccessError,," +
  "TypeMismatchError,SecurityError,NetworkError,AbortError,URLMismatchError,QuotaExceededError,TimeoutError,InvalidNodeTypeError," +
  "DataCloneError"
).split(",");
const CONSTANTS = (
  "INDEX_SIZE_ERR,DOMSTRING_SIZE_ERR,HIERARCHY_REQUEST_ERR,WRONG_DOCUMENT_ERR,INVALID_CHARACTER_ERR,NO_DATA_ALLOWED_ERR," +
  "NO_MODIFICATION_ALLOWED_ERR,NOT_FOUND_ERR,NOT_SUPPORTED_ERR,INUSE_ATTRIBUTE_ERR,INVALID_STATE_ERR,SYNTAX_ERR," +
  "INVALID_MODIFICATION_ERR,NAMESPACE_ERR,INVALID_ACCESS_ERR,VALIDATION_ERR,TYPE_MISMATCH_ERR,SECURITY_ERR,NETWORK_ERR,ABORT_ERR," +
  "URL_MISMATCH_ERR,QUOTA_EXCEEDED_ERR,TIMEOUT_ERR,INVALID_NODE_TYPE_ERR,DATA_CLONE_ERR"
).split(",");

/** Code by name. */
const codes: Record<string, number> = { __proto__: null } as Any;
for (let i = 0; i < NAMES.length; i++) if (NAMES[i] !== "") codes[NAMES[i]] = i + 1;

/** Puts private fields on the object that its argument is: instances are made by `Error`, so that the engine gives them a stack. */
const Adopt = function (this: Any, object: Any) {
  return object;
} as Any;

class Data extends Adopt {
  #name: string;
  #message: string;
  constructor(object: Any, name: string, message: string) {
    super(object);
    this.#name = name;
    this.#message = message;
  }
  static has(value: Any): boolean {
    return typeof value === "object" && value !== null && #name in value;
  }
  static name_(value: Any): string {
    return value.#name;
  }
  static message_(value: Any): string {
    return value.#message;
  }
}

export function defineDOMException(): void {
  const own = (value: Any): Any => {
    if (!Data.has(value)) throw new TypeError("not a DOMException");
    return value;
  };
  const Made = function DOMException(this: Any, message: Any = "", options: Any = "Error") {
    if (new.target === undefined) throw new TypeError("Class constructor DOMException cannot be invoked without 'new'");
    const bag = typeof options === "object" && options !== null;
    const name = bag ? (options.name === undefined ? "Error" : "" + options.name) : "" + options;
    const made: Any = construct(Error, [], new.target);
    new Data(made, name, "" + message);
    if (bag && options.cause !== undefined) hidden(made, "cause", options.cause);
    return made;
  } as Any;
  const proto = Object.create(ErrorPrototype);
  const getters = {
    get name() {
      return Data.name_(own(this));
    },
    get message() {
      return Data.message_(own(this));
    },
    get code() {
      return codes[Data.name_(own(this))] ?? 0;
    },
  };
  for (const name of Object.keys(getters)) {
    defineProperty(proto, name, { get: getterIn(getters, name), enumerable: true, configurable: true });
  }
  hidden(proto, "constructor", Made);
  defineProperty(proto, Symbol.toStringTag, { value: "DOMException", configurable: true });
  defineProperty(Made, "prototype", { value: proto, writable: false });
  defineProperty(Made, "length", { value: 0, configurable: true });
  setProto(Made, Function.prototype);
  for (let i = 0; i < CONSTANTS.length; i++) {
    const constant = { value: i + 1, enumerable: true };
    defineProperty(Made, CONSTANTS[i], constant);
    defineProperty(proto, CONSTANTS[i], constant);
  }
  hidden(globalThis, "DOMException", Made);
  setDOMException((value) => Data.has(value));
  setExceptionData((value, name) => (name === "name" ? Data.name_(value) : Data.message_(value)));
}
