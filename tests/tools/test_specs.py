"""What a session accepts as tools."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from gloveport.tools import build_specs
from gloveport.types import SchemaTool


def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


async def later(*, flag: bool = False) -> None: ...


class Greeter:
    """A greeter."""

    async def __call__(self, name: str) -> str:
        """Greets."""
        return name

    def method(self, other: str) -> str:
        return other


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = SchemaTool("get-weather", "Weather.", SCHEMA, add, {"type": "string"})


def test_all_forms_of_one_tool() -> None:
    mapping = {"name": "get-weather", "description": "Weather.", "callable": add}
    spellings = [
        [WEATHER],
        {"get-weather": WEATHER},
        [{**mapping, "input_schema": SCHEMA, "output_schema": {"type": "string"}}],
        [{**mapping, "inputSchema": SCHEMA, "outputSchema": {"type": "string"}, "title": "T", "annotations": {}}],
        {"get-weather": {**mapping, "inputSchema": SCHEMA, "outputSchema": {"type": "string"}}},
    ]
    specs = [build_specs(tools)["get_weather"] for tools in spellings]
    assert all(spec == specs[0] for spec in specs)
    assert (specs[0].name, specs[0].schema_tool, specs[0].description) == ("get-weather", True, "Weather.")
    assert specs[0].input_schema == SCHEMA and specs[0].output_schema == {"type": "string"}


def test_callables() -> None:
    specs = build_specs([add, later])
    assert list(specs) == ["add", "later"]
    assert [(p.name, p.required, p.default) for p in specs["add"].parameters] == [("a", True, None), ("b", False, 2)]
    assert specs["later"].parameters == ()
    assert (specs["add"].is_async, specs["later"].is_async) == (False, True)
    assert specs["add"].description == "Adds." and not specs["add"].schema_tool
    assert specs["add"].input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_odd_callables() -> None:
    greeter = Greeter()
    tools: dict[str, Callable[..., Any]] = {
        "object": greeter,
        "method": greeter.method,
        "partial": functools.partial(add, 1),
        "builtin": max,
        "type": int,
    }
    specs = build_specs(tools)
    assert specs["object"].is_async and specs["object"].description == "Greets."
    assert [p.name for p in specs["method"].parameters] == ["other"]
    assert [p.name for p in specs["partial"].parameters] == ["b"]
    assert specs["partial"].description == "Adds."
    assert [p.variadic for p in specs["builtin"].parameters] == [True]


def test_own_limits_of_a_tool() -> None:
    spec = build_specs([{"name": "a", "callable": add, "max_calls": 3, "sequential": True}])["a"]
    assert (spec.max_calls, spec.sequential) == (3, True)
    assert spec.input_schema == {"type": "object"} and spec.output_schema is None
    for wrong in (-1, True, "3"):
        with pytest.raises(ValueError, match="'a': `max_calls`"):
            build_specs([{"name": "a", "callable": add, "max_calls": wrong}])


def keyword_only(a: int, *, b: int) -> None: ...


@pytest.mark.parametrize(
    ("tools", "error", "message"),
    [
        ({add}, TypeError, "not set"),
        (frozenset({add}), TypeError, "not frozenset"),
        ("add", TypeError, "not str"),
        (3, TypeError, "not int"),
        (add, TypeError, "not function"),
        ([3], TypeError, "3 is not a tool"),
        ({"a": 3}, TypeError, "tool 'a': 3 is not callable"),
        ({3: add}, TypeError, "name must be a string"),
        ([lambda: 1], ValueError, "has no name"),
        ([functools.partial(add)], ValueError, "has no name"),
        ([{"callable": add}], ValueError, "needs a `name`"),
        ([{"name": "a"}], TypeError, "'a': `callable` must be a function"),
        ([{"name": "a", "callable": add, "input_schema": []}], TypeError, "'a': `input_schema` must be"),
        ([{"name": "a", "callable": add, "outputSchema": "x"}], TypeError, "'a': `output_schema` must be"),
        ([keyword_only], ValueError, "'keyword_only': the keyword-only parameter 'b'"),
        ([add, add], ValueError, "'add' and 'add' are both"),
    ],
)
def test_what_is_refused(tools: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_specs(tools)


def test_no_tools() -> None:
    assert build_specs({}) == {} == build_specs([])
