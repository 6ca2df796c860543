"""How a guest's arguments reach the Python function."""

from __future__ import annotations

from typing import Any

import pytest

from gloveport.errors import ToolArgumentError
from gloveport.tools import bind_arguments, build_specs
from gloveport.types import SchemaTool
from gloveport.wire.values import UNDEFINED


def one(sql: str) -> None: ...
def some(a: int, b: str = "B", c: int | None = 3) -> None: ...
def many(a: int, *rest: int) -> None: ...
def none() -> None: ...


SPECS = build_specs([one, some, many, none])


@pytest.mark.parametrize(
    ("tool", "args", "bound"),
    [
        ("one", ["x"], ["x"]),
        ("one", ["x", UNDEFINED, UNDEFINED], ["x"]),
        ("some", [1], [1]),
        ("some", [1, UNDEFINED], [1]),
        ("some", [1, UNDEFINED, 4], [1, "B", 4]),
        ("some", [1, "B", None], [1, "B", None]),
        ("many", [1, 2, 3], [1, 2, 3]),
        ("none", [], []),
        ("none", [UNDEFINED], []),
    ],
)
def test_positional(tool: str, args: list[Any], bound: list[Any]) -> None:
    before = list(args)
    assert bind_arguments(SPECS[tool], args) == (bound, {})
    assert args == before


@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        ("one", [], "one takes 1 argument, got 0: one(sql: string): Promise<null>"),
        ("one", [UNDEFINED], "one takes 1 argument, got 0: one(sql: string): Promise<null>"),
        ("one", ["a", "b"], "one takes 1 argument, got 2: one(sql: string): Promise<null>"),
        (
            "some",
            [],
            "some takes 1 to 3 arguments, got 0: some(a: number, b?: string, c?: number | null): Promise<null>",
        ),
        (
            "some",
            [1] * 4,
            "some takes 1 to 3 arguments, got 4: some(a: number, b?: string, c?: number | null): Promise<null>",
        ),
        ("many", [], "many takes at least 1 arguments, got 0: many(a: number, ...rest: number[]): Promise<null>"),
        ("none", [1], "none takes 0 arguments, got 1: none(): Promise<null>"),
    ],
)
def test_wrong_numbers(tool: str, args: list[Any], message: str) -> None:
    with pytest.raises(ToolArgumentError) as caught:
        bind_arguments(SPECS[tool], args)
    assert str(caught.value) == message
    assert isinstance(caught.value, TypeError)


WEATHER = build_specs(
    [
        SchemaTool(
            "get-weather",
            "",
            {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
            one,
        )
    ],
    namespace="tools",
)["get_weather"]


@pytest.mark.parametrize(
    ("args", "bound"), [([{"city": "Paris"}], {"city": "Paris"}), ([], {}), ([UNDEFINED], {}), ([{}, UNDEFINED], {})]
)
def test_one_object(args: list[Any], bound: dict[str, Any]) -> None:
    assert bind_arguments(WEATHER, args, validate=False) == ([bound], {})


@pytest.mark.parametrize(
    ("args", "got"),
    [
        (["Paris"], "a string"),
        ([None], "null"),
        ([True], "a boolean"),
        ([1], "a number"),
        ([[1]], "an array"),
        ([b""], "a Uint8Array"),
        ([{1}], "a Set"),
        ([{}, 2], "2 arguments"),
        ([UNDEFINED, {}], "2 arguments"),
    ],
)
def test_not_one_object(args: list[Any], got: str) -> None:
    with pytest.raises(ToolArgumentError) as caught:
        bind_arguments(WEATHER, args, namespace="tools")
    assert str(caught.value) == (
        f'get_weather takes one object argument, got {got}: write await tools.get_weather({{city: "..."}})'
    )
