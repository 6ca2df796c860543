"""Every stub compiles under `tsc --strict`, and the types of schemas accept what another generator's types accept."""

# ruff: noqa: UP007, E501

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, Union

import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from strict_tsc import diagnostics
from test_stubs import schemas, texts

from gloveport.tools import typescript_stubs
from gloveport.tools.declarations import Declarations
from gloveport.types import SchemaTool

pytestmark = pytest.mark.registry

T = TypeVar("T")


def sampled(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Many examples for one run of the compiler."""
    found: list[Any] = []

    @seed(random.randrange(2**32))
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


class Color(enum.Enum):
    RED = "red"
    ONE = 1


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    city: str
    zip: NotRequired[int]


@dataclasses.dataclass
class Tree(Generic[T]):
    """A tree. */ declare const broken: string; /*"""

    kids: list[Tree[T]]
    value: T | None = None


class Promise(pydantic.BaseModel):
    """The name of a global type."""

    when: dt.date
    parts: dict[str, Promise] = {}
    kind: Literal["a", 1] = pydantic.Field("a", description="Ends */ here")


_leaves = st.sampled_from(
    [int, float, str, bool, None, Any, bytes, dt.datetime, dt.date, dt.timedelta, decimal.Decimal, uuid.UUID, Color, Point, Address,
     Tree[int], Promise, Literal["x", 2, None, "*/", "`${a}\\"], object, T, set]
)  # fmt: skip
_annotations = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda a: list[a], inner),
        st.builds(lambda a: set[a], inner),
        st.builds(lambda a: dict[str, a], inner),
        st.builds(lambda a, b: Union[a, b], inner, inner),
        st.builds(lambda a, b: tuple[a, b], inner, inner),
        st.builds(lambda a: tuple[a, ...], inner),
        st.builds(lambda a: Awaitable[a], inner),
    ),
    max_leaves=6,
)
_names = st.lists(
    st.sampled_from(["a", "class_", "default", "arguments", "é", "_", "args", "x1"]),
    min_size=4,
    max_size=4,
    unique=True,
)
_texts = st.sampled_from(["", "One line.", "Ends */ early", "Two\nlines @param x {", "\u2028 \x1b"])


@st.composite
def functions(draw: Callable[..., Any]) -> Any:
    """Functions with required, optional, variadic and keyword-only parameters."""
    a, b, c, d = draw(_names)
    namespace: dict[str, Any] = {}
    exec(f"def f({a}, {b}=None, *{c}, {d}=1): ...", namespace)
    made = namespace["f"]
    made.__annotations__ = {name: draw(_annotations) for name in (a, b, c, d, "return")}
    made.__doc__ = draw(_texts)
    return made


def test_signatures_compile() -> None:
    files: dict[str, str] = {}
    for index, pair in enumerate(sampled(st.tuples(functions(), functions()), 60)):
        tools = {"f": pair[0], "g-h": pair[1]}
        files[f"bare{index}.d.ts"] = typescript_stubs(tools) + "export {};"
        files[f"space{index}.d.ts"] = typescript_stubs(tools, namespace="tools") + "export {};"
        files[f"catalog{index}.d.ts"] = (
            typescript_stubs([], tools_catalog=[SchemaTool("s", "", {}, len)]) + "export {};"
        )
    found = diagnostics(files)
    assert not found, [(name, said, files.get(name)) for name, said in found.items()][:3]


def test_schemas_compile() -> None:
    files: dict[str, str] = {}
    triples = st.tuples(schemas, schemas, schemas, texts)
    for index, (one, two, three, text) in enumerate(sampled(triples, 100)):
        schema = {"type": "object", "properties": {"x": one}, "$defs": {"A": two, "b c": three}}
        tools = [
            SchemaTool("f", text, schema, len, schema),
            SchemaTool("g", text, {"type": "object"}, len, {**schema, "anyOf": [one]}),
        ]
        files[f"bare{index}.d.ts"] = typescript_stubs(tools) + "export {};"
        files[f"space{index}.d.ts"] = typescript_stubs(tools, namespace="tools") + "export {};"
    found = diagnostics(files)
    assert not found, [(name, said, files.get(name)) for name, said in found.items()][:3]


def test_the_compiler_is_asked() -> None:
    """A control: what is wrong is found."""
    text = typescript_stubs([SchemaTool("f", "", {"properties": {"a": {"type": "string"}}, "required": ["a"]}, len)])
    use = "f({a: 'x'});\nf({a: 1});\nf({});\nexport {};"
    found = diagnostics(
        {
            "stubs.d.ts": text,
            "use.ts": "/// <reference path='stubs.d.ts' />\n" + use,
            "bad.d.ts": "declare const a: Nope;",
        }
    )
    assert [line for line, _ in found.pop("use.ts")] == [2, 3]
    assert found.keys() == {"bad.d.ts"}


CIRCULAR = [
    ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}, "unknown"),
    ({"allOf": [{"type": "string"}, {"$ref": "#/$defs/B"}]}, "string & B"),
    ({"type": "object", "additionalProperties": {"$ref": "#/$defs/A"}}, "{ [key: string]: A }"),
    ({"anyOf": [{"type": "string"}, {"type": "array", "prefixItems": [{"type": "string"}], "items": {"$ref": "#/$defs/A"}}]},
     "string | [string, ...A[]]"),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}, "allOf": [{"prefixItems": [{"type": "string"}], "items": {"$ref": "#/$defs/A"}}]},
     "{\n  a?: A;\n} & [string, ...unknown[]]"),
    ({"prefixItems": [], "items": {"$ref": "#/$defs/A"}}, "A[]"),
]  # fmt: skip


def test_types_that_contain_themselves() -> None:
    files: dict[str, str] = {}
    for index, (definition, kind) in enumerate(CIRCULAR):
        definitions = {"A": definition, "B": {"$ref": "#/$defs/A"}}
        files[f"{index}.d.ts"] = typescript_stubs(
            [SchemaTool("f", "", {"$defs": definitions}, len, {"$ref": "#/$defs/A", "$defs": definitions})]
        )
        assert f"type A = {kind};" in files[f"{index}.d.ts"]
        files[f"{index}.d.ts"] += "export {};"
    assert not diagnostics(files)


# ── json-schema-to-typescript as the other opinion ───────────────────────────────────────────────────────────────────

_plain = st.sampled_from(
    [{"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}, {"enum": ["a", 1]},
     {"const": "a"}, {"type": ["string", "null"]}, {"$ref": "#/definitions/Node"}]
)  # fmt: skip
_objects = st.dictionaries(st.sampled_from(["a", "b-c", "1"]), _plain, min_size=1, max_size=2)
_both = st.recursive(
    _plain,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda key, one, two: {key: [one, two]}, st.sampled_from(["anyOf", "oneOf"]), inner, inner),
        st.builds(lambda one, two: {"allOf": [{"type": "object", "properties": one}, {"type": "object", "properties": two}]}, _objects, _objects),
        st.builds(lambda props, needed: {"type": "object", "properties": props, "required": [n for n in needed if n in props],
                                         "additionalProperties": False},
                  st.dictionaries(st.sampled_from(["a", "b-c", "1"]), inner, min_size=1, max_size=3), st.sets(st.sampled_from(["a", "b-c", "1"]))),
        st.builds(lambda more: {"type": "object", "additionalProperties": more}, inner),
    ),
    max_leaves=6,
)  # fmt: skip
_node = {
    "type": "object",
    "properties": {"next": {"$ref": "#/definitions/Node"}, "v": {"type": "number"}},
    "required": ["v"],
    "additionalProperties": False,
}
_samples = st.recursive(
    st.sampled_from(["a", "x", 1, 2.5, True, None, {"v": 1}, {"v": 1, "next": {"v": 2}}, {"v": "x"}, {}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b-c", "1", "z"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


def _source(imports: str, kind: str, values: list[Any]) -> str:
    return (
        f"{imports} type T = {kind};\n"
        + "\n".join(f"const v{i}: T = {json.dumps(value)};" for i, value in enumerate(values))
        + "\nexport {};"
    )


def test_types_accept_what_the_other_generator_s_types_accept() -> None:
    cases = sampled(st.tuples(_both, st.lists(_samples, min_size=8, max_size=8)), 80)
    files: dict[str, str] = {}
    for index, (schema, values) in enumerate(cases):
        declarations = Declarations()
        kind = declarations.type_of({**schema, "definitions": {"Node": _node}}, "root", "input").text
        declared = " ".join(" ".join(declarations.texts()).split("\n"))
        files[f"ours{index}.ts"] = _source(declared, " ".join(kind.split("\n")), values)
        files[f"theirs{index}.ts"] = _source(f"import type {{ Root }} from './oracle{index}';", 'Root["it"]', values)
    found = diagnostics(files, [{**schema, "definitions": {"Node": _node}} for schema, _ in cases])
    refused = accepted = 0
    for index, (schema, values) in enumerate(cases):
        ours, theirs = ({line for line, _ in found.get(f"{who}{index}.ts", [])} for who in ("ours", "theirs"))
        assert 0 not in ours | theirs, found
        differing = [(values[line - 1], files[f"ours{index}.ts"].splitlines()[0]) for line in ours ^ theirs]
        assert not differing, (schema, differing)
        refused += len(ours)
        accepted += len(values) - len(ours)
    assert refused > 20 and accepted > 20
