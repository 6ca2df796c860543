"""JSON Schema as TypeScript types."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

from .names import identifier
from .schema import EXTENSION, Mode, Schema

__all__ = ("Declarations", "Kind", "doc_comment", "indented")

MAX_DEPTH = 40
"""Levels of a schema that are spelled out; below that it says `unknown`."""
LIB_TYPES = """
    Array ArrayBuffer Date Error Function Map Object Promise Record Set String Number Boolean Symbol Uint8Array any bigint
    boolean declare never number object string symbol type undefined unknown
"""
_LIB_TYPES = frozenset(LIB_TYPES.split())


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """The text of a type."""

    text: str
    operator: str = ""
    """`|` or `&` if the type is made of several by it."""
    members: bool = False
    """It is the body of an interface."""

    def __str__(self) -> str:
        return self.text

    @property
    def element(self) -> str:
        """The text where something is put behind it, as in `element[]`."""
        return f"({self.text})" if self.operator or self.text.startswith("-") else self.text


UNKNOWN = Kind("unknown")
NEVER = Kind("never")
NULL = Kind("null")
_SIMPLE = {
    "string": Kind("string"),
    "number": Kind("number"),
    "integer": Kind("number"),
    "boolean": Kind("boolean"),
    "null": NULL,
}
_EXTENSIONS = {"bytes": Kind("Uint8Array"), "date": Kind("Date"), "never": NEVER}


def doc_comment(text: str, *, one_line: bool = False) -> str:
    """A `/** */` comment with its newline; empty for no text. The text cannot end it."""
    lines = [_printable(line) for line in text.strip().replace("*/", "*\\/").splitlines()]
    if not lines:
        return ""
    if one_line and len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() or char == "\t" else " " for char in line.rstrip())


def indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else line for line in text.split("\n"))


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "number"
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        members = (f"{_key(str(key))}: {_literal(item)}" for key, item in cast("Mapping[Any, Any]", value).items())
        return f"{{ {'; '.join(members)} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_literal(item) for item in cast('Sequence[Any]', value))}]"
    return "unknown"


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("$", "_").isidentifier() else json.dumps(name, ensure_ascii=False)


def _union(parts: Sequence[Kind]) -> Kind:
    unique = list(dict.fromkeys(part.text for part in parts if part != NEVER))
    if "unknown" in unique:
        return UNKNOWN
    if "boolean" in unique:
        unique = [part for part in unique if part not in ("true", "false")]
    if len(unique) < 2:
        return next((part for part in parts if [part.text] == unique), NEVER)
    return Kind(" | ".join(unique), "|")


def _intersection(parts: Sequence[Kind]) -> Kind:
    unique = list(dict.fromkeys(part for part in parts if part != UNKNOWN))
    if len(unique) < 2:
        return unique[0] if unique else UNKNOWN
    return Kind(" & ".join(f"({part})" if part.operator == "|" else part.text for part in unique), "&")


class Declarations:
    """Types of schemas, and the named declarations that they refer to. One for all tools of a text."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Identity of a named schema to its TypeScript name."""
        self._texts: dict[str, str] = {}
        self._within: dict[str, set[str]] = {}
        """Names that the type of a name consists of, other than as members of an object or an array."""

    def texts(self) -> list[str]:
        """The declarations so far, in the order in which they were first referred to."""
        return list(self._texts.values())

    def type_of(self, schema: Schema, hint: str, mode: Mode) -> Kind:
        """The TypeScript type of a JSON Schema document. `hint` names it if it refers to itself."""
        document = _Document(self, schema, hint, mode)
        kind = document.type_of(schema)
        document.declare_all()
        return kind

    def name(self, identity: str, wanted: str, mode: Mode) -> tuple[str, bool]:
        """The name of a schema, and whether it is new. Equal schemas of different tools share one."""
        known = self._names.get(identity)
        if known is not None:
            return known, False
        base = identifier(wanted) or "Type"
        base = f"{base}_" if base in _LIB_TYPES else base
        name, number = base, 2
        if name in self._texts:
            name = f"{base}{mode.capitalize()}"
        while name in self._texts:
            name, number = f"{base}{number}", number + 1
        self._names[identity] = name
        self._texts[name] = ""
        return name, True

    def consists_of(self, name: str | None, part: str) -> bool:
        """Notes that a type has another as its part. `False` if it would then consist of itself, which TypeScript refuses."""
        if name is None:
            return True
        waiting, reached = [part], {part}
        while waiting:
            new = self._within.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        if name in reached:
            return False
        self._within.setdefault(name, set()).add(part)
        return True

    def declare(self, name: str, text: str) -> None:
        """Gives a name its declaration."""
        self._texts[name] = text


class _Document:
    """One schema with what its references resolve to."""

    def __init__(self, declarations: Declarations, root: Schema, hint: str, mode: Mode) -> None:
        self._declarations = declarations
        self._root = root
        self._hint = "".join(part[:1].upper() + part[1:] for part in hint.split("_")) or "Type"
        self._mode: Mode = mode
        self._depth = 0
        self._declared: str | None = None
        """The name whose type is being made, outside of objects and arrays."""
        self._crossed = False
        """Within an intersection: TypeScript looks into arrays that have a rest element there (seen with 5.9)."""
        self._referred = 0
        self._waiting: list[tuple[str, Schema]] = []
        self._identities: dict[str, str] = {}

    def type_of(self, schema: Any) -> Kind:
        if schema is True:
            return UNKNOWN
        if schema is False:
            return NEVER
        if not isinstance(schema, Mapping) or self._depth >= MAX_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            kind = self._type(cast("Schema", schema))
        finally:
            self._depth -= 1
        return _union([kind, NULL]) if cast("Schema", schema).get("nullable") is True else kind

    def _member(self, schema: Any, *, looked_into: bool = False) -> Kind:
        """The type of a member of an object or an array, which may be the type that holds it."""
        before = self._declared, self._crossed
        if not looked_into:
            self._declared, self._crossed = None, False
        try:
            return self.type_of(schema)
        finally:
            self._declared, self._crossed = before

    def _type(self, schema: Schema) -> Kind:
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return Kind(_literal(schema["const"]))
        if isinstance(schema.get("enum"), (list, tuple)):
            return _union([Kind(_literal(value)) for value in schema["enum"]])
        before, self._crossed = self._crossed, self._crossed or _is_crossing(schema)
        try:
            return self._combined(schema)
        finally:
            self._crossed = before

    def _combined(self, schema: Schema) -> Kind:
        branches = [
            _union([self.type_of(branch) for branch in _branches(schema, key)])
            for key in ("anyOf", "oneOf")
            if _branches(schema, key)
        ]
        branches += [self.type_of(branch) for branch in _branches(schema, "allOf")]
        combined = _intersection(branches)
        if combined != UNKNOWN and schema.get("type") == "object" and not schema.get("properties"):
            return combined  # which says more than that it is an object
        return _intersection([self._by_type(schema), combined])

    def _by_type(self, schema: Schema) -> Kind:
        extension = schema.get(EXTENSION)
        if extension == "set":
            return Kind(f"Set<{self._member(schema.get('items', True))}>")
        if isinstance(extension, str) and extension in _EXTENSIONS:
            return _EXTENSIONS[extension]
        kinds = schema.get("type")
        if isinstance(kinds, (list, tuple)):
            return _union([self._one_type(kind, schema) for kind in cast("Sequence[Any]", kinds)])
        if kinds is None:
            kinds = (
                "object"
                if "properties" in schema
                else "array"
                if "items" in schema or "prefixItems" in schema
                else None
            )
        return self._one_type(kinds, schema)

    def _one_type(self, kind: Any, schema: Schema) -> Kind:
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._array(schema)
        return _SIMPLE.get(kind, UNKNOWN) if isinstance(kind, str) else UNKNOWN

    def _array(self, schema: Schema) -> Kind:
        items = schema.get("items", True)
        prefix = schema.get("prefixItems")
        if isinstance(items, (list, tuple)):  # before draft 2020-12
            prefix, items = cast("Sequence[Any]", items), schema.get("additionalItems", True)
        inside = self._crossed
        if not isinstance(prefix, (list, tuple)):
            return Kind(f"{self._member(items, looked_into=inside).element}[]")
        kinds = [self._member(item, looked_into=inside) for item in cast("Sequence[Any]", prefix)]
        parts = [kind.text for kind in kinds]
        least = schema.get("minItems")
        # Without minItems a JSON Schema tuple may be shorter; schemas that mean that are rare, and say so.
        if isinstance(least, int) and 0 <= least < len(parts):
            parts = [kind.text if index < least else f"{kind.element}?" for index, kind in enumerate(kinds)]
        if not parts and items is not False:
            return Kind(f"{self._member(items, looked_into=inside).element}[]")
        if items is not False and "items" in schema:
            parts.append(f"...{self._member(items, looked_into=inside).element}[]")
        return Kind(f"[{', '.join(parts)}]")

    def _object(self, schema: Schema) -> Kind:
        properties = schema.get("properties")
        more = schema.get("additionalProperties", not properties)
        if not isinstance(properties, Mapping) or not properties:
            referred = self._referred
            kind = self._member(more)  # `never`, if there must be none
            if self._referred == referred:
                return Kind(f"Record<string, {kind}>")
            return Kind(f"{{ [key: string]: {kind} }}")  # a `Record` of what it is part of is refused
        needed = {name for name in _branches(schema, "required") if isinstance(name, str)}
        lines: list[str] = []
        kinds: set[str] = set()
        for name, value in cast("Mapping[str, Any]", properties).items():
            kind = self._member(value).text
            kinds.add(kind if name in needed else "?")
            comment = doc_comment(_description(value), one_line=True)
            lines.append(indented(f"{comment}{_key(name)}{'' if name in needed else '?'}: {kind};"))
        if more is not False and "additionalProperties" in schema:
            rest = self._member(more).text
            # TypeScript demands that it covers the other properties.
            lines.append(f"  [key: string]: {rest if kinds == {rest} else 'unknown'};")
        return Kind("{\n" + "\n".join(lines) + "\n}", members=True)

    # ── references ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _reference(self, pointer: Any) -> Kind:
        target = self._resolve(pointer)
        if target is None:
            return UNKNOWN
        if isinstance(target, bool):
            return self.type_of(target)
        wanted = _last_token(pointer) or str(target.get("title") or self._hint)
        name, new = self._declarations.name(self._identity(pointer), wanted, self._mode)
        if new:
            self._waiting.append((name, target))
        self._referred += 1
        return Kind(name) if self._declarations.consists_of(self._declared, name) else UNKNOWN

    def declare_all(self) -> None:
        """Declares what was referred to, and what that refers to. A queue: references may form long chains."""
        for name, target in self._waiting:  # grows while it is read
            self._declare(name, target)
        self._waiting.clear()

    def _declare(self, name: str, target: Schema) -> None:
        self._declared = name
        kind = self.type_of(target)
        self._declared = None
        comment = doc_comment(_description(target), one_line=True)
        text = f"interface {name} {kind}" if kind.members else f"type {name} = {kind};"
        self._declarations.declare(name, comment + text)

    def _resolve(self, pointer: Any) -> Schema | bool | None:
        """What a reference points to: within the document only, nothing is fetched."""
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return None
        node: Any = self._root
        for token in _tokens(pointer):
            if isinstance(node, Mapping):
                node = cast("Mapping[str, Any]", node).get(token)
            elif (
                isinstance(node, (list, tuple)) and token.isdecimal() and int(token) < len(cast("Sequence[Any]", node))
            ):
                node = cast("Sequence[Any]", node)[int(token)]
            else:
                return None
        return cast("Schema | bool", node) if isinstance(node, (Mapping, bool)) else None

    def _identity(self, pointer: str) -> str:
        """Text that is equal for two references exactly if what can be reached from them is equal."""
        known = self._identities.get(pointer)
        if known is not None:
            return known
        reached: dict[str, Any] = {}
        waiting = [pointer]
        while waiting:
            at = waiting.pop()
            if at not in reached:
                reached[at] = self._resolve(at)
                waiting.extend(_references(reached[at]))
        identity = self._identities[pointer] = json.dumps([pointer, reached], sort_keys=True, default=str)
        return identity


def _branches(schema: Schema, key: str) -> Sequence[Any]:
    value = schema.get(key)
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()


def _is_crossing(schema: Schema) -> bool:
    """Whether its type is an intersection of several."""
    own = any(key in schema for key in ("type", "properties", "items", "prefixItems"))
    return own + sum(bool(_branches(schema, key)) for key in ("anyOf", "oneOf")) + len(_branches(schema, "allOf")) > 1


def _description(schema: Any) -> str:
    text = cast("Schema", schema).get("description") if isinstance(schema, Mapping) else None
    return text if isinstance(text, str) else ""


def _tokens(pointer: str) -> list[str]:
    """Reference tokens of a JSON Pointer (RFC 6901) in a URI fragment."""
    return [unquote(token).replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")[1:]]


def _last_token(pointer: str) -> str:
    tokens = _tokens(pointer)
    return tokens[-1] if tokens else ""


def _references(node: Any) -> list[str]:
    """References anywhere in a schema."""
    found: list[str] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            mapping = cast("Mapping[str, Any]", part)
            if isinstance(mapping.get("$ref"), str):
                found.append(mapping["$ref"])
            stack.extend(mapping.values())
        elif isinstance(part, (list, tuple)):
            stack.extend(cast("Sequence[Any]", part))
    return found
