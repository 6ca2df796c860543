"""JSON Schema validators for the arguments of tools.

jsonschema-rs does the work. A schema may come from a stranger, and the values do, so

- nothing is fetched: a reference that leaves the document is refused;
- patterns run on the linear engine. One that needs lookaround or backreferences gets the backtracking engine with a step limit;
- only `is_valid` is ever asked. It remembers what it found out about a recursive reference; whatever collects errors does not, and takes
  time that is exponential in the depth of the value (seen with 0.61: 88 s for 18 levels). Which part does not fit is found by
  asking about the parts (`explain.py`);
- a schema that says more than `MAX_EXPANSIONS` things when its references are written out is refused: of nested alternatives all are
  tried.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from .schema import Schema

__all__ = ("MAX_EXPANSIONS", "Validators", "subschemas")

MAX_EXPANSIONS: Final = 200_000
"""Schemas to look at, with every reference written out."""
MAX_LEVELS: Final = 400
"""Of a schema, with references followed."""
MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_NAMED: Final = 32
"""References that are no JSON Pointer: 32 of them can be written out to about 100,000."""
_MAX_STEPS: Final = 10_000
"""Of the backtracking engine, for one text."""
_KEPT: Final = 512

_DATA: Final = frozenset({"enum", "const", "default", "examples", "example"})
_MAPS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)


class Validators:
    """A compiled schema. Raises `ValueError`, which names the place, for one that cannot be used."""

    def __init__(self, encoded: bytes) -> None:
        given: dict[str, Any] = msgspec.json.decode(encoded)
        _check_cost(given)
        self.schema: Schema = _with_null(given) if b'"nullable"' in encoded else given
        self._compiled, self.options = _compiled(self.schema)
        self.fits: Callable[[Any], bool] = self._compiled.is_valid
        self._parts: Any = None

    @staticmethod
    def of(schema: Schema) -> Validators:
        """The validators of a schema; equal schemas share them."""
        try:
            encoded = msgspec.json.encode(schema)
        except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
            raise ValueError(f"it is no JSON: {error}") from None
        if len(encoded) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES // 1024**2} MiB")
        return _kept(encoded)

    def part(self, pointer: str) -> Callable[[Any], bool] | None:
        """Whether a value fits the schema at a JSON Pointer, `#/properties/a`."""
        if self._parts is None:
            import jsonschema_rs

            self._parts = jsonschema_rs.validator_map_for(
                cast("Any", self.schema), validate_formats=True, retriever=_refuse, pattern_options=self.options
            )
        found = self._parts.get(pointer)
        return None if found is None else found.is_valid


@functools.lru_cache(maxsize=_KEPT)
def _kept(encoded: bytes) -> Validators:
    return Validators(encoded)


def _refuse(uri: str) -> Any:
    raise ValueError(f"a schema must be complete: nothing is fetched, not even {uri[:100]!r}")


def _compiled(schema: Schema) -> tuple[Any, Any]:
    import jsonschema_rs  # 60 ms, which sessions without such tools need not pay

    engines = jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_STEPS)
    for last, engine in zip((False, True), engines, strict=True):
        try:
            validator = jsonschema_rs.validator_for(
                cast("Any", schema), validate_formats=True, retriever=_refuse, pattern_options=engine
            )
        except jsonschema_rs.ValidationError as error:
            if not last and error.schema_path[-1:] == ["pattern"]:
                continue  # the other engine knows more
            where = "/".join(map(str, error.instance_path))
            raise ValueError(f"{f'at `#/{where}`: ' if where else ''}{error.message[:300]}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(str(error)[:300]) from None
        return validator, engine
    raise AssertionError  # the last engine returns or raises


# ── what a schema costs ──────────────────────────────────────────────────────────────────────────────────────────────


def subschemas(schema: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The schemas directly in a schema, each with the steps to it."""
    if not isinstance(schema, Mapping):
        return
    for key, value in cast("Schema", schema).items():
        if key in _DATA:
            continue
        if key in _MAPS and isinstance(value, Mapping):
            yield from (((key, name), part) for name, part in cast("Schema", value).items())
        elif isinstance(value, Mapping):
            yield (key,), value
        elif isinstance(value, list):
            yield from (((key, str(index)), part) for index, part in enumerate(cast("list[Any]", value)))


def resolved(root: Any, reference: Any) -> Any:
    """What a JSON Pointer in a URI fragment leads to (RFC 6901); `None` for any other reference."""
    from urllib.parse import unquote

    if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
        return None
    node = root
    for token in unquote(reference[2:]).split("/") if reference != "#" else ():
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = cast("Schema", node).get(name)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[int(name)]
        else:
            return None
    return node


def _check_cost(root: Schema) -> None:
    known: dict[int, int] = {}
    named = 0

    def cost(node: Any, levels: int) -> int:
        nonlocal named
        if not isinstance(node, Mapping):
            return 1
        if levels > MAX_LEVELS:
            raise ValueError(f"it is nested deeper than {MAX_LEVELS} levels")
        schema = cast("Schema", node)
        if id(schema) in known:
            return known[id(schema)]
        known[id(schema)] = 1  # if it refers to itself: what is found out about a reference is remembered
        parts = [part for steps, part in subschemas(schema) if steps[0] not in ("$defs", "definitions")]
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if key in schema:
                target = resolved(root, schema[key])
                named += target is None
                parts.append(target)
        total = min(1 + sum(cost(part, levels + 1) for part in parts), MAX_EXPANSIONS + 1)
        known[id(schema)] = total
        return total

    for definitions in ("$defs", "definitions"):  # what a name leads to is anywhere
        for part in cast(
            "Schema", root.get(definitions) if isinstance(root.get(definitions), Mapping) else {}
        ).values():
            cost(part, 1)
    if cost(root, 0) > MAX_EXPANSIONS:
        raise ValueError(f"it says more than {MAX_EXPANSIONS:,} things when its references are written out")
    if named > _MAX_NAMED:
        raise ValueError(f"it has more than {_MAX_NAMED} references that are no `#/...`")


def _with_null(schema: Any) -> Any:
    """`nullable: true` of OpenAPI 3.0, which the stubs tell the model, in words of JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in _DATA:
            node[key] = value
        elif key in _MAPS and isinstance(value, dict):
            node[key] = {name: _with_null(part) for name, part in cast("dict[str, Any]", value).items()}
        elif isinstance(value, list):
            node[key] = [_with_null(part) for part in cast("list[Any]", value)]
        else:
            node[key] = _with_null(value)
    return _nullable(node) if node.get("nullable") is True else node


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    null = {"type": "null"}
    if "$ref" in node:
        return {**{key: value for key, value in node.items() if key != "$ref"}, "anyOf": [{"$ref": node["$ref"]}, null]}
    types: Any = node.get("type")
    if types is not None:
        node["type"] = [*cast("Sequence[Any]", types if isinstance(types, list) else [types]), "null"]
        node["type"] = list(dict.fromkeys(node["type"])) if all(isinstance(t, str) for t in node["type"]) else types
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if isinstance(node.get("enum"), list) and None not in node["enum"]:
        node["enum"] = [*node["enum"], None]
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list):
            node[key] = [*node[key], null]
    return node
