"""TypeScript declarations from JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.engines.toolbox import Toolbox
from gloveport.errors import CompileError
from gloveport.tools import typescript_stubs
from gloveport.types import SchemaTool


@pytest.fixture(scope="module")
def toolbox() -> Iterator[Toolbox]:
    with Toolbox(sandbox="off") as shared:
        yield shared


def query_rows(sql: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Run a read-only SQL query against the orders table."""
    raise NotImplementedError


WEATHER = SchemaTool(
    name="get_weather",
    description="Current weather for a city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    output_schema={"type": "object", "properties": {"temp": {"type": "number"}}},
    callable=lambda args: args,
)


def test_the_documented_examples() -> None:
    assert typescript_stubs([query_rows, WEATHER]) == (
        "/**\n"
        " * Run a read-only SQL query against the orders table.\n"
        " */\n"
        "declare function query_rows(sql: string, params?: Record<string, unknown> | null): "
        "Promise<Record<string, unknown>[]>;\n"
        "\n"
        "/** Current weather for a city. */\n"
        "declare function get_weather(args: {\n"
        "  city: string;\n"
        "}): Promise<{\n"
        "  temp?: number;\n"
        "}>;\n"
    )


def test_a_namespace() -> None:
    assert typescript_stubs({"a": query_rows, "b-c": WEATHER}, namespace="tools") == (
        "declare namespace tools {\n"
        "  /**\n"
        "   * Run a read-only SQL query against the orders table.\n"
        "   */\n"
        "  function a(sql: string, params?: Record<string, unknown> | null): Promise<Record<string, unknown>[]>;\n"
        "\n"
        "  /** Current weather for a city. */\n"
        "  function b_c(args: {\n"
        "    city: string;\n"
        "  }): Promise<{\n"
        "    temp?: number;\n"
        "  }>;\n"
        "}\n"
    )
    assert typescript_stubs({}) == typescript_stubs({}, namespace="tools") == ""


def stubs(output: Any, *, defs: dict[str, Any] | None = None) -> list[str]:
    """Declarations for a result schema, and its type last."""
    schema = {**output, **({"$defs": defs} if defs else {})}
    tool = SchemaTool("f", "", {"type": "object"}, len, schema)
    *declarations, function = typescript_stubs([tool]).rstrip().split("\n\n")
    return [*declarations, function.partition("Promise<")[2].removesuffix(">;")]


STRING, NUMBER = {"type": "string"}, {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({}, "unknown"),
        ({"type": "integer"}, "number"),
        ({"type": "null"}, "null"),
        ({"type": "strange"}, "unknown"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"const": 1}, "1"),
        ({"const": {"a-b": [1, None]}}, '{ "a-b": [1, null] }'),
        ({"enum": ["a", 1, None, True]}, '"a" | 1 | null | true'),
        ({"enum": ["*/ | }"]}, '"*/ | }"'),
        ({"enum": []}, "never"),
        ({"type": "array"}, "unknown[]"),
        ({"type": "array", "items": STRING}, "string[]"),
        ({"items": STRING}, "string[]"),
        ({"type": "array", "items": {"enum": ['a"|', "b"]}}, '("a\\"|" | "b")[]'),
        ({"type": "array", "items": {"type": "array", "items": {"anyOf": [STRING, NUMBER]}}}, "(string | number)[][]"),
        ({"type": "array", "items": False}, "never[]"),
        ({"type": "array", "prefixItems": [STRING, NUMBER]}, "[string, number]"),
        ({"type": "array", "prefixItems": [STRING], "items": False}, "[string]"),
        ({"type": "array", "prefixItems": [STRING], "items": NUMBER}, "[string, ...number[]]"),
        ({"type": "array", "prefixItems": [STRING, {"enum": [1, 2]}], "minItems": 1}, "[string, (1 | 2)?]"),
        ({"type": "array", "items": [STRING], "additionalItems": False}, "[string]"),
        ({"anyOf": [STRING, {"type": "null"}]}, "string | null"),
        ({"oneOf": [STRING, NUMBER, STRING]}, "string | number"),
        ({"anyOf": [STRING, {}]}, "unknown"),
        ({"anyOf": [{"type": "boolean"}, {"const": True}]}, "boolean"),
        ({"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}, "string"),
        ({"allOf": [STRING, {}]}, "string"),
        ({"allOf": [{"anyOf": [STRING, NUMBER]}, {"enum": [1]}]}, "(string | number) & 1"),
        ({"type": "array", "items": {"allOf": [STRING, {"const": "a"}]}}, '(string & "a")[]'),
        ({"type": "object"}, "Record<string, unknown>"),
        ({"type": "object", "additionalProperties": NUMBER}, "Record<string, number>"),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
        ({"properties": {"a": STRING}, "required": ["a"]}, "{\n  a: string;\n}"),
        ({"type": "object", "properties": {"a-b": STRING, "1": STRING, "é": STRING, "ok$": STRING}},
         '{\n  "a-b"?: string;\n  "1"?: string;\n  "é"?: string;\n  ok$?: string;\n}'),
        ({"properties": {"a": STRING}, "required": ["a"], "additionalProperties": STRING},
         "{\n  a: string;\n  [key: string]: string;\n}"),
        ({"properties": {"a": STRING}, "additionalProperties": NUMBER}, "{\n  a?: string;\n  [key: string]: unknown;\n}"),
        ({"properties": {"a": STRING}, "additionalProperties": False}, "{\n  a?: string;\n}"),
        ({"properties": {"a": {"properties": {"b": {"description": "B */ b", **STRING}}}}},
         "{\n  a?: {\n    /** B *\\/ b */\n    b?: string;\n  };\n}"),
        ({"type": "object", "anyOf": [{"properties": {"a": STRING}}, {"properties": {"b": STRING}}]},
         "{\n  a?: string;\n} | {\n  b?: string;\n}"),
        ({"properties": {"a": STRING}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "{\n  a?: string;\n}"),
        ({"$ref": "https://example.com/x.json"}, "unknown"),
        ({"$ref": "#/$defs/Missing"}, "unknown"),
        ({"$ref": "#/type"}, "unknown"),
        ({"type": "array", "items": {"description": 'a " quote', "anyOf": [{"properties": {"a": {"description": '"'}}},
         {"type": "null"}]}}, '({\n  /** " */\n  a?: unknown;\n} | null)[]'),
    ],
)  # fmt: skip
def test_types(toolbox: Toolbox, schema: dict[str, Any], kind: str) -> None:
    assert stubs(schema) == [kind]
    toolbox.check_declarations(typescript_stubs([SchemaTool("f", "", {"type": "object"}, len, schema)]))


def test_references() -> None:
    defs = {
        "Node": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                 "kind": {"$ref": "#/$defs/some kind"}}, "required": ["kids"], "description": "A node."},
        "some kind": {"enum": ["a", "b"]},
        "a/b~c": STRING,
        "loop": {"$ref": "#/$defs/loop"},
        "Promise": NUMBER,
    }  # fmt: skip
    assert stubs({"$ref": "#/$defs/Node"}, defs=defs) == [
        "/** A node. */\ninterface Node {\n  kids: Node[];\n  kind?: some_kind;\n}",
        'type some_kind = "a" | "b";',
        "Node",
    ]
    assert stubs({"$ref": "#/$defs/a~1b~0c"}, defs=defs) == ["type a_b_c = string;", "a_b_c"]
    assert stubs({"$ref": "#/$defs/loop"}, defs=defs) == ["type loop = unknown;", "loop"]
    assert stubs({"$ref": "#/$defs/Promise"}, defs=defs) == ["type Promise_ = number;", "Promise_"]


def test_a_schema_that_refers_to_its_root() -> None:
    assert stubs({"type": "object", "properties": {"next": {"$ref": "#"}}}) == [
        "interface FResult {\n  next?: FResult;\n}",
        "{\n  next?: FResult;\n}",
    ]


def tool_with(name: str, definition: dict[str, Any]) -> SchemaTool:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/X"}},
        "required": ["x"],
        "$defs": {"X": definition},
    }
    return SchemaTool(name, "", schema, len, {"$ref": "#/$defs/X", "$defs": {"X": definition}})


def test_tools_share_equal_declarations_and_only_those() -> None:
    text = typescript_stubs([tool_with("a", STRING), tool_with("b", dict(STRING)), tool_with("c", NUMBER)])
    assert [line for line in text.splitlines() if line.startswith("type")] == [
        "type X = string;",
        "type XInput = number;",
    ]
    assert [line for line in text.splitlines() if "Promise" in line] == [
        "}): Promise<X>;", "}): Promise<X>;", "}): Promise<XInput>;",
    ]  # fmt: skip


def test_the_arguments_may_be_left_out_if_nothing_is_required() -> None:
    text = typescript_stubs([{"name": "now", "callable": len}])
    assert text == "declare function now(args?: Record<string, unknown>): Promise<unknown>;\n"


def test_hostile_text() -> None:
    tool = SchemaTool("f", "a */ declare var x;\nb \x1b[31m \u202e c", {"type": "object"}, len)
    assert typescript_stubs([tool]).splitlines()[:4] == ["/**", " * a *\\/ declare var x;", " * b  [31m   c", " */"]


def test_deep_and_long_schemas_are_cut_not_fatal() -> None:
    deep: dict[str, Any] = STRING
    for _ in range(3000):
        deep = {"type": "array", "items": deep}
    assert stubs(deep) == ["unknown" + "[]" * 40]
    chain: dict[str, Any] = {f"N{i}": {"properties": {"n": {"$ref": f"#/$defs/N{i + 1}"}}} for i in range(400)}
    assert len(stubs({"$ref": "#/$defs/N0"}, defs={**chain, "N400": STRING})) == 402


keys = st.sampled_from(["a", "b-c", "class", "__proto__", "1", 'q"\\', "é", "*/"])
texts = st.sampled_from(["", "plain", "*/ x", "`${a}`", "line\nbreak", '"', "</script>"])
leaves = st.one_of(
    st.builds(lambda kind, text: {"type": kind, "description": text},
              st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"]), texts),
    st.builds(lambda values: {"enum": values}, st.lists(st.one_of(texts, st.integers(), st.none(), st.booleans(), st.floats()))),
    st.builds(lambda value: {"const": value}, st.recursive(texts, lambda inner: st.dictionaries(keys, inner) | st.lists(inner))),
    st.sampled_from([{}, True, False, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/b c"}, {"$ref": "#"}, {"$ref": "x"}]),
)  # fmt: skip


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda prefix, rest, least: {"type": "array", "prefixItems": prefix, "items": rest, "minItems": least},
                  some, inner, st.integers(0, 3)),
        st.builds(lambda key, parts, base: {**base, key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), some,
                  st.sampled_from([{}, {"type": "object"}, {"type": "string", "nullable": True}])),
        st.builds(lambda props, needed, more: {"properties": props, "required": needed, "additionalProperties": more},
                  st.dictionaries(keys, inner, max_size=3), st.lists(keys, max_size=2), inner),
    )  # fmt: skip


schemas = st.recursive(leaves, branches, max_leaves=8)


@given(schemas, schemas, schemas, texts)
@settings(max_examples=150, deadline=None)
def test_every_text_is_typescript(toolbox: Toolbox, one: Any, two: Any, three: Any, text: str) -> None:
    schema = {"type": "object", "properties": {"x": one}, "$defs": {"A": two, "b c": three}}
    tools = [
        SchemaTool("f", text, schema, len, schema),
        SchemaTool("g", text, schema, len, {"anyOf": [one], "$defs": {}}),
    ]
    toolbox.check_declarations(typescript_stubs(tools))
    toolbox.check_declarations(typescript_stubs(tools, namespace="tools"))


def test_the_check_can_fail(toolbox: Toolbox) -> None:
    with pytest.raises(CompileError):
        toolbox.check_declarations("declare function f(a: ): Promise<x>;")
