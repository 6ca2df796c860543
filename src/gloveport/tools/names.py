"""Names of tools: what the model writes, and which names are taken."""

from __future__ import annotations

from typing import Final

__all__ = (
    "GUEST_GLOBALS",
    "INHERITED",
    "NEVER",
    "RESERVED_PREFIX",
    "RESERVED_WORDS",
    "check_namespace",
    "check_tool_name",
    "identifier",
)

RESERVED_PREFIX: Final = "__gloveport"
"""Names that start so belong to us."""

_RESERVED = """
    arguments await break case catch class const continue debugger default delete do else enum export extends false
    finally for function if implements import in instanceof interface let new null package private protected public
    return static super switch this throw true try typeof var void while with yield
"""
RESERVED_WORDS: Final = frozenset(_RESERVED.split())
"""ECMA-262 §12.7.2, with those of strict and async code, and `arguments`."""

# ECMA-262 §19, with proposals that engines have; then `console`, and what every object inherits.
_GLOBALS = """
    AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean DataView
    Date DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity
    Int16Array Int32Array Int8Array InternalError Intl Iterator JSON Map Math NaN Number Object Promise Proxy
    RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String SuppressedError Symbol SyntaxError Temporal
    TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly
    console decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval globalThis isFinite isNaN parseFloat
    parseInt undefined unescape __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ hasOwnProperty
    isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf
"""
GUEST_GLOBALS: Final = frozenset(_GLOBALS.split())
"""Names that a bare tool must not take: it would replace what the session's code and ours relies on.

The same on every engine. Web APIs that are polyfills (`fetch`, `URL`, `setTimeout`) are not among them.
"""

_INHERITED = """
    __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ hasOwnProperty isPrototypeOf propertyIsEnumerable
    toLocaleString toString valueOf then toJSON
"""
INHERITED: Final = frozenset(_INHERITED.split())
"""What a catalog's object has by itself, like every object, or what is asked of every object (`then`, `toJSON`)."""

NEVER: Final = frozenset({"__proto__", "constructor", "prototype"})
"""Names that no tool can have."""


def identifier(name: str) -> str:
    """The JavaScript name of anything, by fixed rules.

    Characters that a JavaScript identifier cannot have become `_`; a name that starts with a digit gets `_` before it; a
    reserved word gets `_` after it. `list-issues` is `list_issues`, `2fa` is `_2fa`, `class` is `class_`.
    """
    if name.isidentifier() and name not in RESERVED_WORDS:  # nothing to do for nearly all of them
        return name
    text = "".join(char if _continues(char) else "_" for char in name)
    if text and not _starts(text[0]):
        text = f"_{text}"
    return f"{text}_" if text in RESERVED_WORDS else text


def _continues(char: str) -> bool:
    # Python's XID_Continue is a subset of the ID_Continue of ECMAScript; `$` is legal there in addition.
    return char == "$" or f"_{char}".isidentifier()


def _starts(char: str) -> bool:
    return char == "$" or char.isidentifier()


def check_tool_name(name: object, *, namespace: str | None) -> str:
    """The JavaScript name of a tool. Raises `TypeError` and `ValueError` for a name that no tool can have."""
    if not isinstance(name, str):
        raise TypeError(f"a tool's name must be a string, not {name!r}")
    if not name or not name.isprintable():
        raise ValueError(f"{name!r} is not a name for a tool")
    js_name = identifier(name)
    if js_name.startswith(RESERVED_PREFIX):
        raise ValueError(f"tool {name!r}: names that start with {RESERVED_PREFIX} are reserved")
    if js_name in NEVER:
        raise ValueError(f"tool {name!r}: every JavaScript object has that name; choose another one")
    if namespace is None and js_name in GUEST_GLOBALS:
        raise ValueError(
            f"tool {name!r} would replace the sandbox's own `{js_name}`: choose another name, "
            f'or give the tools a namespace (`namespace="tools"`)'
        )
    return js_name


def check_namespace(namespace: object) -> str | None:
    """A usable namespace. Raises `TypeError` and `ValueError`."""
    if namespace is None:
        return None
    if not isinstance(namespace, str):
        raise TypeError(f"`namespace` must be a string, not {namespace!r}")
    if not namespace or identifier(namespace) != namespace:
        raise ValueError(f"`namespace` must be a JavaScript identifier, not {namespace!r}")
    if namespace in GUEST_GLOBALS or namespace in NEVER or namespace.startswith(RESERVED_PREFIX):
        raise ValueError(f"`namespace` must not be {namespace!r}: that name is taken")
    return namespace
