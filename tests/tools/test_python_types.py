"""Python annotations as TypeScript."""

# ruff: noqa: UP006, UP007, UP045, PYI061, S102  the spellings are what is tested

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import sys
import uuid
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import (  # noqa: UP035
    Annotated,
    Any,
    Dict,
    List,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

import pytest

from gloveport.tools import typescript_stubs
from gloveport.tools.schema import schema_of_annotation

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
UserId = NewType("UserId", int)


class Color(enum.Enum):
    RED = "red"
    ONE = 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1


class Point(NamedTuple):
    x: int
    name: str


class Weird:
    pass


def stub(annotation: Any, *, result: bool = False) -> list[str]:
    """The declarations for a function with that annotation, and the type itself last."""

    def f(a: Any) -> Any: ...

    f.__annotations__ = {"return": annotation} if result else {"a": annotation}
    *declarations, function = typescript_stubs([f]).rstrip().rsplit("\n\n")
    start, end = ("(a: unknown): Promise<", ">;") if result else ("declare function f(a: ", "): Promise<unknown>;")
    return [*declarations, function.partition(start)[2].removesuffix(end)]


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (int, "number"),
        (float, "number"),
        (str, "string"),
        (bool, "boolean"),
        (None, "null"),
        (bytes, "Uint8Array"),
        (bytearray, "Uint8Array"),
        (dt.datetime, "Date"),
        (dt.date, "string"),
        (dt.time, "string"),
        (dt.timedelta, "number"),
        (decimal.Decimal, "string"),
        (uuid.UUID, "string"),
        (pathlib.Path, "string"),
        (list, "unknown[]"),
        (list[int], "number[]"),
        (List[int], "number[]"),
        (Sequence[str], "string[]"),
        (Iterable[str], "string[]"),
        (collections.deque[str], "string[]"),
        (list[int | None], "(number | null)[]"),
        (tuple, "unknown[]"),
        (tuple[int, ...], "number[]"),
        (tuple[int, str], "[number, string]"),
        (Tuple[int, str], "[number, string]"),
        (tuple[()], "[]"),
        (dict, "Record<string, unknown>"),
        (dict[str, int], "Record<string, number>"),
        (Dict[str, Any], "Record<string, unknown>"),
        (Mapping[str, list[bool]], "Record<string, boolean[]>"),
        (dict[int, str], "unknown"),
        (set[int], "Set<number>"),
        (frozenset, "Set<unknown>"),
        (int | None, "number | null"),
        (Optional[str], "string | null"),
        (Union[int, str, float], "number | string"),
        (list[Union[int, str]], "(number | string)[]"),
        (Literal["a", 1, True, None], '"a" | 1 | true | null'),
        (Literal['"\n'], '"\\"\\n"'),
        (Annotated[int, "anything"], "number"),
        (UserId, "number"),
        (T, "unknown"),
        (Bound, "number"),
        (Color, '"red" | 1'),
        (Literal[Color.RED], '"red"'),
        (Level, "1 | 2"),
        (Access, "number"),
        (Point, "[number, string]"),
        (Any, "unknown"),
        (object, "unknown"),
        (Weird, "unknown"),
        (list[Weird], "unknown[]"),
        (type, "unknown"),
        ("Missing", "unknown"),
        ("list[int]", "number[]"),
        ("1 / 0", "unknown"),
        ([1], "unknown"),
    ],
)
def test_types(annotation: Any, kind: str) -> None:
    assert stub(annotation) == [kind]
    assert stub(annotation, result=True) == [kind]


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1
    note: Annotated[str, "x"] = dataclasses.field(default="", init=False)


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    lines: list[Line]
    parent: Order | None


class Options(TypedDict, total=False):
    deep: Required[bool]
    limit: int


class Filter(Options):
    text: str
    tags: NotRequired[list[str]]


def test_a_dataclass_that_a_tool_takes() -> None:
    assert stub(Line) == ["interface Line {\n  sku: string;\n  count?: number;\n}", "Line"]


def test_a_dataclass_that_a_tool_returns_has_all_its_fields() -> None:
    assert stub(Line, result=True) == ["interface Line {\n  sku: string;\n  count: number;\n  note: string;\n}", "Line"]


def test_both_in_one_text_and_references() -> None:
    def f(order: Order) -> list[Order]: ...
    def g(order: Order) -> None: ...

    assert typescript_stubs([f, g]) == (
        "interface Order {\n  id: string;\n  lines: Line[];\n  parent: Order | null;\n}\n\n"
        "interface Line {\n  sku: string;\n  count?: number;\n}\n\n"
        "interface OrderOutput {\n  id: string;\n  lines: LineOutput[];\n  parent: OrderOutput | null;\n}\n\n"
        "interface LineOutput {\n  sku: string;\n  count: number;\n  note: string;\n}\n\n"
        "declare function f(order: Order): Promise<OrderOutput[]>;\n\n"
        "declare function g(order: Order): Promise<null>;\n"
    )


def test_typed_dicts() -> None:
    assert stub(Filter) == [
        "interface Filter {\n  deep: boolean;\n  limit?: number;\n  text: string;\n  tags?: string[];\n}",
        "Filter",
    ]


def test_awaitable_results() -> None:
    assert stub(Awaitable[int], result=True) == ["number"]


def test_two_classes_of_the_same_name() -> None:
    def make(field: str) -> type:
        return dataclasses.make_dataclass("Same", [(field, int)])

    def f(a: Any, b: Any) -> None: ...

    f.__annotations__ = {"a": make("x"), "b": make("y")}
    assert typescript_stubs([f]).startswith(
        "interface Same {\n  x: number;\n}\n\ninterface Same2 {\n  y: number;\n}\n\ndeclare function f(a: Same, b: Same2)"
    )


def test_signatures() -> None:
    def f(default: int, default_: int, *args: str | None, class_: int = 1, **kwargs: int) -> None: ...
    def g(a, b=1, /, c="x"): ...  # type: ignore[no-untyped-def]

    assert typescript_stubs([f, g]) == (
        "declare function f(default_: number, default__: number, ...args: (string | null)[]): Promise<null>;\n\n"
        "declare function g(a: unknown, b?: unknown, c?: unknown): Promise<unknown>;\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the `type` statement is newer")
def test_type_aliases() -> None:
    namespace: dict[str, Any] = {}
    exec("type Json = dict[str, Json] | list[Json] | str | None\ntype Pair[T] = tuple[T, T]", namespace)
    assert stub(namespace["Json"]) == ["type Json = { [key: string]: Json } | Json[] | string | null;", "Json"]
    assert stub(namespace["Pair"][int]) == ["[number, number]"]


def test_pydantic_models() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Item(pydantic.BaseModel):
        sku: str = pydantic.Field(description="Stock keeping unit", alias="SKU")
        when: dt.datetime | None = None

    class Items(pydantic.RootModel[list[Item]]):
        pass

    assert stub(Item) == [
        "interface Item {\n  /** Stock keeping unit */\n  SKU: string;\n  when?: Date | null;\n}",
        "Item",
    ]
    assert stub(Item, result=True)[0].splitlines()[2:4] == ["  sku: string;", "  when: Date | null;"]
    assert stub(Items)[-1] == "Items" and "type Items = Item[];" in stub(Items)


def test_the_schema_of_a_tool_is_json_schema() -> None:
    assert schema_of_annotation(list[Line]) == {
        "type": "array",
        "items": {"$ref": "#/$defs/Line"},
        "$defs": {
            "Line": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sku"],
            }
        },
    }
