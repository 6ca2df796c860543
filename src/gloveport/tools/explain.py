"""Which part of a value does not fit a JSON Schema, and why: found by asking about the parts.

The time is that of asking once per level of the value, whatever the schema. What it cannot tell apart it does not guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from .problems import MAX_PROBLEMS, Problem, Step, kind, quoted, unknown_names
from .schema import Schema
from .validators import Validators, resolved

__all__ = ("explain",)

_TOLD: Final = frozenset(
    {"type", "const", "additionalProperties", "$ref", "$schema", "$id", "$dynamicRef", "$recursiveRef"}
)
_MAX_DEPTH: Final = 64
_SHOWN_OPTIONS: Final = 8
_TYPES: Final = {
    "string": ("a string", str), "number": ("a number", (int, float)), "integer": ("an integer", (int, float)),
    "boolean": ("a boolean", bool), "null": ("null", type(None)), "array": ("an array", list),
    "object": ("an object", dict),
}  # fmt: skip


def explain(validators: Validators, value: Any) -> list[Problem]:
    """What does not fit, at most `MAX_PROBLEMS` and one more."""
    return _Explanation(validators).at("#", validators.schema, value, (), 0) or [((), "does not fit the tool's schema")]


class _Explanation:
    def __init__(self, validators: Validators) -> None:
        self._validators = validators

    def at(self, pointer: str, schema: Any, value: Any, path: tuple[Step, ...], depth: int) -> list[Problem]:
        """Problems of a value that does not fit the schema at the pointer."""
        if schema is False:
            return [(path, "must be left out")]
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return [(path, "does not fit the tool's schema")]
        node = cast("Schema", schema)
        reference = node.get("$ref")
        target = resolved(self._validators.schema, reference)
        if target is not None and not self._fits(str(reference), value):
            return self.at(str(reference), target, value, path, depth + 1)
        problems = _own_problems(node, value, path)
        if len(problems) <= MAX_PROBLEMS:
            problems += self._of_parts(pointer, node, value, path, depth)
        return problems[: MAX_PROBLEMS + 1] or self._of_branches(pointer, node, value, path, depth)

    def _fits(self, pointer: str, value: Any) -> bool:
        fits = self._validators.part(pointer)
        return fits is None or fits(value)  # nothing is known of a part that is not there

    def _of_parts(self, pointer: str, schema: Schema, value: Any, path: tuple[Step, ...], depth: int) -> list[Problem]:
        problems: list[Problem] = []
        for name, part, inner, step in _parts(schema, value):
            at = f"{pointer}/{name}"
            if not self._fits(at, inner):
                problems += self.at(at, part, inner, (*path, step), depth + 1)
                if len(problems) > MAX_PROBLEMS:
                    break
        return problems

    def _of_branches(
        self, pointer: str, schema: Schema, value: Any, path: tuple[Step, ...], depth: int
    ) -> list[Problem]:
        for index, branch in enumerate(_list(schema, "allOf")):
            at = f"{pointer}/allOf/{index}"
            if not self._fits(at, value):
                return self.at(at, branch, value, path, depth + 1)
        for key in ("anyOf", "oneOf"):
            branches = _list(schema, key)
            at = [(f"{pointer}/{key}/{index}", self._target(branch)) for index, branch in enumerate(branches)]
            if not branches or any(self._fits(where, value) for where, _ in at):
                continue
            alike = [(where, branch) for where, branch in at if _type_fits(branch, value)]
            if len(alike) == 1:
                return self.at(*alike[0], value, path, depth + 1)
            names = [name for _, branch in at for name in _type_names(branch)]
            if not alike and names:
                return [(path, f"must be {' or '.join(dict.fromkeys(names))}, got {kind(value)}")]
            return [(path, f"fits none of the {len(branches)} alternatives")]
        return [(path, "does not fit the tool's schema")]

    def _target(self, schema: Any) -> Any:
        branch: Any = schema
        for _ in range(8):
            if not isinstance(branch, Mapping) or "$ref" not in branch:
                break
            branch = resolved(self._validators.schema, cast("Schema", branch)["$ref"])
        return cast("Any", branch)


def _parts(schema: Schema, value: Any) -> list[tuple[str, Any, Any, Step]]:
    """Schemas for members of a value: their pointers, themselves, the members and the steps to them."""
    found: list[tuple[str, Any, Any, Step]] = []
    if isinstance(value, dict):
        known: Any = schema.get("properties")
        properties: Schema = cast("Schema", known) if isinstance(known, Mapping) else {}
        for name, item in cast("dict[str, Any]", value).items():
            if name in properties:
                found.append((f"properties/{_token(name)}", properties[name], item, name))
            elif isinstance(schema.get("additionalProperties"), Mapping) and "patternProperties" not in schema:
                found.append(("additionalProperties", schema["additionalProperties"], item, name))
    elif isinstance(value, list):
        prefix = _list(schema, "prefixItems")
        for index, item in enumerate(cast("list[Any]", value)):
            if index < len(prefix):
                found.append((f"prefixItems/{index}", prefix[index], item, index))
            elif isinstance(schema.get("items"), Mapping):
                found.append(("items", schema["items"], item, index))
    return found


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _own_problems(schema: Schema, value: Any, path: tuple[Step, ...]) -> list[Problem]:
    """Of what the schema says of the value itself, not of its members."""
    if not _type_fits(schema, value):
        names = _type_names(schema)
        hint = " (leave it out if there is none)" if value is None and path else ""
        return [(path, f"must be {' or '.join(names)}, got {kind(value)}{hint}")]
    problems: list[Problem] = []
    if isinstance(value, dict):
        problems += _names(schema, cast("dict[str, Any]", value), path)
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(options, list):
        own: Schema = {"enum": options}
        if not Validators.of(own).fits(value):
            shown = [_option(option) for option in cast("list[Any]", options)[:_SHOWN_OPTIONS]]
            more = ", …" if len(cast("list[Any]", options)) > _SHOWN_OPTIONS else ""
            return [*problems, (path, f"must be {'one of ' if len(shown) > 1 else ''}{', '.join(shown)}{more}")]
    for key, item in schema.items():
        if key in _TOLD or not isinstance(item, (str, int, float, bool)):
            continue
        only: Schema = {key: item, "$schema": schema["$schema"]} if "$schema" in schema else {key: item}
        if not _holds(only, value):
            problems.append((path, _said(key, item)))
    return problems


def _holds(schema: Schema, value: Any) -> bool:
    try:
        return Validators.of(schema).fits(value)
    except ValueError:
        return True  # a keyword that means nothing alone


def _said(key: str, limit: Any) -> str:
    words = {
        "minLength": f"must have at least {limit} characters",
        "maxLength": f"must have at most {limit} characters",
        "minItems": f"must have at least {limit} items",
        "maxItems": f"must have at most {limit} items",
        "minProperties": f"must have at least {limit} properties",
        "maxProperties": f"must have at most {limit} properties",
        "minimum": f"must be at least {limit}",
        "maximum": f"must be at most {limit}",
        "exclusiveMinimum": f"must be more than {limit}",
        "exclusiveMaximum": f"must be less than {limit}",
        "multipleOf": f"must be a multiple of {limit}",
        "uniqueItems": "must have no item twice",
        "pattern": f"must match the pattern {limit}",
        "format": f"must have the format {limit}",
    }
    return words.get(key, f"does not fit `{key}` of the tool's schema")


def _names(schema: Schema, value: dict[str, Any], path: tuple[Step, ...]) -> list[Problem]:
    problems: list[Problem] = [
        ((*path, name), "is missing")
        for name in _list(schema, "required")
        if isinstance(name, str) and name not in value
    ]
    known: Any = schema.get("properties")
    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        names = list(cast("Schema", known)) if isinstance(known, Mapping) else []
        problems += unknown_names(value, names, path)
    return problems


def _option(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else str(value)[:40].replace("None", "null")


def _list(schema: Schema, key: str) -> list[Any]:
    found: Any = schema.get(key)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _types(schema: Any) -> list[str]:
    found: Any = cast("Schema", schema).get("type") if isinstance(schema, Mapping) else None
    names = cast("list[Any]", found) if isinstance(found, list) else [found]
    return [name for name in names if name in _TYPES]


def _type_names(schema: Any) -> list[str]:
    return [_TYPES[name][0] for name in _types(schema)]


def _type_fits(schema: Any, value: Any) -> bool:
    names = _types(schema)
    return not names or any(_is(name, value) for name in names)


def _is(name: str, value: Any) -> bool:
    if isinstance(value, bool) and name in ("number", "integer"):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, cast("Any", _TYPES[name][1]))
