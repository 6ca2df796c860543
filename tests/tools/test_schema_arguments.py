"""Arguments of schema tools: checked against the tool's JSON Schema; schemas and values of strangers are bounded."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport import AgentSandbox, JavaScriptError, SchemaTool
from gloveport.errors import ToolArgumentError
from gloveport.tools import bind_arguments, build_specs
from gloveport.tools.spec import check_schemas
from gloveport.tools.validators import MAX_EXPANSIONS, Validators

NOON = dt.datetime(2030, 1, 2, 12, tzinfo=dt.timezone.utc)
DRAFT7 = "http://json-schema.org/draft-07/schema#"
STRING = {"type": "string"}
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/T"}},
    "$defs": {
        "T": {
            "anyOf": [
                {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}, "required": ["kids"]},
                {"type": "string", "minLength": 2},
            ]
        }
    },
}  # fmt: skip


def take(schema: dict[str, Any], value: Any, **fields: Any) -> Any:
    tool = {"name": "f", "callable": len, "input_schema": schema, **fields}
    (found,), _ = bind_arguments(build_specs([tool])["f"], [value])
    return found


def refusal(schema: dict[str, Any], value: Any) -> str:
    with pytest.raises(ToolArgumentError) as caught:
        take(schema, value)
    return str(caught.value).partition("\nwrite ")[0].removeprefix("f: ")


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (of(a=STRING), {"a": 1}, "`a` must be a string, got a number"),
        (of(a=STRING), {"a": None}, "`a` must be a string, got null (leave it out if there is none)"),
        (of(a={"type": ["string", "null"]}), {"a": 1}, "`a` must be a string or null, got a number"),
        ({**of(a=STRING), "required": ["a"]}, {}, "`a` is missing"),
        ({**of(a=STRING), "additionalProperties": False}, {"b": 1}, '`the argument` has no property "b"; there are a'),
        ({"additionalProperties": STRING}, {"k": 1}, "`k` must be a string, got a number"),
        (of(a={"enum": ["x", 1, None]}), {"a": "y"}, '`a` must be one of "x", 1, null'),
        (of(a={"const": "x"}), {"a": "y"}, '`a` must be "x"'),
        (of(a={"type": "integer"}), {"a": 1.5}, "`a` must be an integer, got a number"),
        (of(a={"type": "integer"}), {"a": True}, "`a` must be an integer, got a boolean"),
        (of(a={"minimum": 3}), {"a": 1}, "`a` must be at least 3"),
        (of(a={"maxLength": 1}), {"a": "ab"}, "`a` must have at most 1 characters"),
        (of(a={"pattern": "^x+$"}), {"a": "ab"}, "`a` must match the pattern ^x+$"),
        (of(a={"format": "email"}), {"a": "ab"}, "`a` must have the format email"),
        (of(a={"type": "array", "uniqueItems": True}), {"a": [1, 1]}, "`a` must have no item twice"),
        (of(a={"items": of(p={"type": "number"})}), {"a": [{}, {"p": "x"}]}, "`a[1].p` must be a number, got a string"),
        (of(a={"prefixItems": [STRING]}), {"a": [1]}, "`a[0]` must be a string, got a number"),
        (of(a={"anyOf": [STRING, {"type": "number"}]}), {"a": []}, "`a` must be a string or a number, got an array"),
        (of(a={"oneOf": [of(k={"const": 1}), of(k={"const": 2})]}), {"a": {"k": 3}}, "`a` fits none of the 2 alternatives"),
        (of(a={"allOf": [STRING, {"minLength": 2}]}), {"a": "x"}, "`a` must have at least 2 characters"),
        (of(a={"not": STRING}), {"a": "x"}, "`a` does not fit the tool's schema"),
        (of(a=False), {"a": "x"}, "`a` must be left out"),
        (of(**{"x/y~z": STRING}), {"x/y~z": 1}, '`["x/y~z"]` must be a string, got a number'),
        (TREE, {"root": {"kids": ["ab", {"kids": ["x"]}]}}, "`root.kids[1].kids[0]` must have at least 2 characters"),
        ({**of(a={"items": [STRING]}), "$schema": DRAFT7}, {"a": [1]}, "`a` does not fit the tool's schema"),
        (of(a={"type": "number"}), {"a": float("nan")}, "`a` must be a finite number"),
        (of(), {"a": ["\ud800"]}, "`a[0]` has half of a surrogate pair: use toWellFormed() on the text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(schema: dict[str, Any], value: Any, said: str) -> None:
    assert refusal(schema, value) == said


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (of(a=STRING), {}, {}),
        (of(a=STRING), {"b": None}, {"b": None}),
        (of(a={"type": "string", "format": "date-time"}), {"a": NOON}, {"a": "2030-01-02T12:00:00Z"}),
        (of(a={"type": "array"}), {"a": {1}}, {"a": [1]}),
        (of(a=STRING), {"a": b"hi"}, {"a": "aGk="}),
        (of(a={"type": "object"}), {"a": {1: NOON}}, {"a": {"1": "2030-01-02T12:00:00Z"}}),
        (of(a={"type": "integer"}), {"a": 10**40}, {"a": 10**40}),
        (of(a={"type": "string", "nullable": True}), {"a": None}, {"a": None}),
        (of(a={"enum": ["x"], "nullable": True}), {"a": None}, {"a": None}),
        ({**of(a={"$ref": "#/$defs/X", "nullable": True}), "$defs": {"X": STRING}}, {"a": None}, {"a": None}),
        (of(nullable=STRING), {"nullable": "x"}, {"nullable": "x"}),
        ({**of(a={"items": [STRING]}), "$schema": DRAFT7}, {"a": ["x", 1]}, {"a": ["x", 1]}),
        (of(a={"type": "string", "format": "of our own"}), {"a": "x"}, {"a": "x"}),
        (of(a={"pattern": "^(?!x)"}), {"a": "y"}, {"a": "y"}),
    ],
)
def test_what_fits_comes_as_json_data(schema: dict[str, Any], value: Any, expected: Any) -> None:
    before = dict(value)
    assert take(schema, value) == expected
    assert value == before


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (of(a={"type": "strin"}), "at `#/properties/a/type`: "),
        (of(a={"pattern": "("}), "at `#/properties/a/pattern`: "),
        ({"required": "a"}, "at `#/required`: "),
        (of(a={"$ref": "https://example.com/s.json"}), "nothing is fetched"),
        (of(a={"$ref": "file:///etc/passwd"}), "nothing is fetched"),
        (of(a={"$ref": "#/$defs/missing"}), "does not exist"),
        ({"$schema": "https://example.com/mine"}, "Unknown meta-schema"),
        (of(a={"const": object()}), "it is no JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_when_the_session_is_made(schema: dict[str, Any], said: str) -> None:
    tool = {"name": "f", "callable": len, "input_schema": schema}
    with pytest.raises(ValueError, match="tool 'f': `input_schema` cannot be used") as caught:
        AgentSandbox([tool], isolation="inline")
    assert said in str(caught.value) and "`validate=False`" in str(caught.value)
    with AgentSandbox([{**tool, "validate": False}], isolation="inline") as session:
        assert session.run("return await f({a: 1})") == 1
    with AgentSandbox([tool], isolation="inline", validate=False) as session:
        assert session.run("return await f({a: 1})") == 1


def test_in_a_catalog_it_is_refused_at_the_call(caplog: pytest.LogCaptureFixture) -> None:
    tools = [SchemaTool("bad", "", {"type": "strin"}, len), SchemaTool("good", "", of(a=STRING), len)]
    with AgentSandbox([], tools_catalog=tools, isolation="inline") as session:
        session.run("await describe_tool(['bad', 'good'])")
        assert session.run("return await tools.good({a: 'x'})") == 1
        with caplog.at_level(logging.WARNING), pytest.raises(JavaScriptError, match="cannot be checked"):
            session.run("await tools.bad({})")
    assert "tool 'bad'" in caplog.text


def test_validate_belongs_to_the_tool() -> None:
    checked, free = (SchemaTool(name, "", of(a=STRING), dict, validate=on) for name, on in (("c", True), ("u", False)))
    with AgentSandbox([checked, free], isolation="inline") as session:
        assert session.run("return await u({a: new Date(0)})") == {"a": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)}
        assert session.run("return await c({a: new Date(0)})") == {"a": "1970-01-01T00:00:00Z"}
        with pytest.raises(JavaScriptError, match="`a` must be a string, got a number"):
            session.run("await c({a: 1})")
    with pytest.raises(TypeError, match="`validate` must be True or False"):
        build_specs([{"name": "f", "callable": len, "validate": "no"}])


# ── strangers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def chain(length: int, width: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"}] * width} for i in range(length)}
    return {**of(a={"$ref": "#/$defs/D0"}), "$defs": {**definitions, f"D{length}": STRING}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = STRING
    for _ in range(levels):
        schema = {"items": schema}
    return of(a=schema)


@pytest.mark.parametrize(
    ("small", "large", "said"),
    [
        (chain(6, 2), chain(40, 2), f"more than {MAX_EXPANSIONS:,} things"),
        (chain(100, 1), chain(500, 1), "nested deeper"),
        (nested(50), nested(450), "nested deeper"),
        (of(a={"pattern": "(a{9}){9}"}), of(a={"pattern": "(a{1000}){1000}"}), "#/properties/a/pattern"),
        (of(a={"enum": ["x" * 1000] * 10}), of(a={"enum": ["x" * 1000] * 5000}), "more than 4 MiB"),
        (
            {"$defs": {f"D{i}": {"$anchor": f"a{i}", "anyOf": [{"$ref": f"#a{i + 1}"}]} for i in range(4)} | {"E": {"$anchor": "a4"}}},
            {"$defs": {f"D{i}": {"$anchor": f"a{i}", "anyOf": [{"$ref": f"#a{i + 1}"}]} for i in range(40)} | {"E": {"$anchor": "a40"}}},
            "more than 32 references",
        ),
    ],
)  # fmt: skip
def test_schemas_are_bounded(small: dict[str, Any], large: dict[str, Any], said: str) -> None:
    def check(schema: dict[str, Any]) -> None:
        check_schemas(build_specs([{"name": "f", "callable": len, "input_schema": schema}]).values())

    check(small)
    with pytest.raises(ValueError, match=r"cannot be used") as caught:
        check(large)
    assert said in str(caught.value)


def deep(levels: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "again",
    [
        {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/T"}}] * 2 + [STRING]},
        {"oneOf": [{"type": "array", "items": {"allOf": [{"$ref": "#/$defs/T"}, {"minItems": n}]}} for n in (0, 1)] + [STRING]},
        {"anyOf": [{"not": {"type": "array", "items": {"$ref": "#/$defs/T"}}}, {"type": "array", "items": {"$ref": "#/$defs/T"}}]},
    ],
)  # fmt: skip
def test_recursive_alternatives_do_not_double_the_time(again: dict[str, Any]) -> None:
    """Twice as deep must not be twice as long per level: 2**80 steps would never end. Both the answer and its explanation."""
    schema = {**of(a={"$ref": "#/$defs/T"}), "$defs": {"T": again}}
    times: list[float] = []
    for levels in (8, 80):
        value = {"a": deep(levels, 1)}
        started = time.process_time()
        try:
            take(schema, value)
        except ToolArgumentError:
            pass
        times.append(time.process_time() - started)
    assert times[1] < 0.5 + 500 * times[0]


def test_patterns_take_linear_time() -> None:
    text = "a" * 40_000 + "!"
    assert "must match the pattern" in refusal(of(a={"pattern": "^(a+)+$"}), {"a": text})
    assert "must match the pattern" in refusal(of(a={"pattern": "^(?=a)(a|aa)+$"}), {"a": text})
    assert take(of(a={"pattern": "^(a+)+$"}), {"a": "aaa"})


def test_deep_values_in_a_small_stack() -> None:
    found: list[Any] = []
    schema = {
        **of(a={"$ref": "#/$defs/T"}),
        "$defs": {"T": {"type": ["array", "integer"], "items": {"$ref": "#/$defs/T"}}},
    }
    thread = threading.Thread(
        target=lambda: found.extend([take(schema, {"a": deep(199, 1)}), refusal(schema, {"a": deep(199, "x")})])
    )
    thread.start()
    thread.join()
    assert found[0] == {"a": deep(199, 1)} and "does not fit" in found[1]


def test_a_check_that_breaks_is_a_refusal(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Panic(BaseException):
        """What a panic of Rust code looks like."""

    def broken(_: Any) -> bool:
        raise Panic("text of the host")

    schema = of(unique_to_this_test=STRING)
    monkeypatch.setattr(Validators.of({"type": "object", **schema}), "fits", broken)
    said = refusal(schema, {})
    assert "cannot be checked" in said and "host" not in said
    assert "Panic" in caplog.text


def test_a_message_is_short_whatever_was_sent() -> None:
    with pytest.raises(ToolArgumentError) as caught:
        take({**of(), "additionalProperties": False}, {"x" * 5000 + str(i): i for i in range(5000)})
    assert len(str(caught.value)) < 800


values = st.recursive(
    st.sampled_from([0, 1, 2.5, "", "ab", True, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x/y"]), inner, max_size=3),
    max_leaves=6,
)
schemas = st.recursive(
    st.sampled_from([{}, True, False, STRING, {"type": "integer"}, {"minLength": 2}, {"const": 1}, {"enum": ["ab", None]},
                     {"$ref": "#/$defs/T"}]),
    lambda inner: st.one_of(
        st.builds(lambda a: {"items": a}, inner),
        st.builds(lambda a, b: {"prefixItems": [a], "items": b}, inner, inner),
        st.builds(lambda k, a, b: {k: [a, b]}, st.sampled_from(["anyOf", "oneOf", "allOf"]), inner, inner),
        st.builds(lambda p, more: {"properties": p, "additionalProperties": more},
                  st.dictionaries(st.sampled_from(["a", "b", "x/y"]), inner, max_size=3), inner),
        st.builds(lambda a: {"not": a}, inner),
    ),
    max_leaves=6,
)  # fmt: skip


@given(schemas, schemas, values)
@settings(max_examples=300, deadline=None)
def test_every_refusal_is_explained(one: Any, definition: Any, value: Any) -> None:
    schema = {**of(a=one), "$defs": {"T": {"anyOf": [{"type": "null"}, {"properties": {"a": definition}}]}}}
    fits = Validators.of({"type": "object", **schema}).fits({"a": value})
    try:
        assert take(schema, {"a": value}) == {"a": value}
        assert fits
    except ToolArgumentError as error:
        assert not fits
        assert str(error).startswith("f:") and "`" in str(error)
