"""Arguments of Python functions: checked against the annotations, and converted to them."""

# ruff: noqa: UP007, UP045

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport import AgentSandbox, JavaScriptError
from gloveport.errors import ToolArgumentError
from gloveport.tools import bind_arguments, build_specs
from gloveport.tools.schema import schema_of_annotation
from gloveport.wire.values import UNDEFINED

UTC = dt.timezone.utc
NOON = dt.datetime(2030, 1, 2, 12, tzinfo=UTC)
MIDNIGHT = dt.datetime(2030, 1, 2, tzinfo=UTC)
UserId = NewType("UserId", int)
T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    ONE = 1
    PAIR = (1, "a")


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    name: str = "p"


class Address(TypedDict):
    city: str
    zip: NotRequired[int]


@dataclasses.dataclass(frozen=True)
class Item:
    price: decimal.Decimal
    color: Color = Color.RED
    tags: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Node:
    kids: list[Node]
    item: Item | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T
    more: list[T]


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("secret of the host")


class Order(pydantic.BaseModel):
    id: int
    due: dt.date | None = None
    note: Annotated[str, pydantic.Field(max_length=5)] = ""

    @pydantic.field_validator("id")
    @classmethod
    def _known(cls, value: int) -> int:
        if value < 0:
            raise ValueError("secret of the host")
        return value


class Name(str):
    pass


def tool(annotation: Any, default: Any = ...) -> Any:
    """A tool with one parameter `a`."""
    if default is ...:

        def f(a: Any) -> None: ...
    else:

        def f(a: Any = default) -> None: ...

    f.__annotations__ = {"a": annotation}
    return build_specs([f])["f"]


def read(annotation: Any, value: Any) -> Any:
    (found,), _ = bind_arguments(tool(annotation), [value])
    return found


def refusal(annotation: Any, value: Any) -> str:
    with pytest.raises(ToolArgumentError) as caught:
        bind_arguments(tool(annotation), [value])
    return str(caught.value).partition("\n")[0].removeprefix("f: ")


ID = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Any, {"a": NOON}, {"a": NOON}),
        (int, 3, 3),
        (int, 1e300, int(1e300)),
        (int, 10**40, 10**40),
        (float, 3, 3.0),
        (str, "\ud800", "\ud800"),
        (UserId, 3, 3),
        (Name, "n", Name("n")),
        (bytes, b"x", b"x"),
        (bytearray, b"x", bytearray(b"x")),
        (dt.datetime, NOON, NOON),
        (dt.datetime, "2030-01-02T12:00:00Z", NOON),
        (dt.datetime, "2030-01-02T12:00:00", NOON),
        (dt.date, "2030-01-02", MIDNIGHT.date()),
        (dt.date, MIDNIGHT, MIDNIGHT.date()),
        (dt.time, "12:30", dt.time(12, 30)),
        (dt.timedelta, 1.5, dt.timedelta(seconds=1.5)),
        (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
        (decimal.Decimal, 1.1, decimal.Decimal("1.1")),
        (uuid.UUID, ID, uuid.UUID(ID)),
        (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
        (Color, "red", Color.RED),
        (Color, 1, Color.ONE),
        (Color, [1, "a"], Color.PAIR),
        (Level, 1, Level.LOW),
        (Access, 3, Access.READ | Access.WRITE),
        (Literal["a", 1, None], None, None),
        (Literal[Color.RED], "red", Color.RED),
        (Optional[int], None, None),
        (Union[int, str], "1", "1"),
        (Union[dt.date, str], "2030-01-02", "2030-01-02"),
        (Union[dt.date, int], "2030-01-02", MIDNIGHT.date()),
        (Union[Item, Address], {"city": "x"}, {"city": "x"}),
        (Union[list[int], list[str]], ["a"], ["a"]),
        (list[dt.date], ["2030-01-02"], [MIDNIGHT.date()]),
        (Sequence[int], [1], [1]),
        (Iterable[Decimal := decimal.Decimal], [1], [Decimal(1)]),
        (collections.deque[int], [1], collections.deque([1])),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], {1, 2}, {1, 2}),
        (set[int], [1, 1, 2], {1, 2}),
        (set[int], [5] * 500, {5}),
        (frozenset[str], {"a"}, frozenset({"a"})),
        (set[tuple[int, int]], [[1, 2]], {(1, 2)}),
        (dict[str, dt.date], {"a": "2030-01-02"}, {"a": MIDNIGHT.date()}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (dict[int, str], {1: "a"}, {1: "a"}),
        (Mapping[Color, int], {"red": 1}, {Color.RED: 1}),
        (Point, [1, "a"], Point(1, "a")),
        (Point, [1], Point(1)),
        (Address, {"city": "x", "zip": 1}, {"city": "x", "zip": 1}),
        (Item, {"price": "1"}, Item(decimal.Decimal(1))),
        (Item, {"price": 1, "color": 1, "tags": {"a"}}, Item(decimal.Decimal(1), Color.ONE, {"a"})),
        (Node, {"kids": [{"kids": [], "item": None}]}, Node([Node([])])),
        (Box[dt.date], {"inside": "2030-01-02", "more": []}, Box(MIDNIGHT.date(), [])),
        (Order, {"id": 1, "due": "2030-01-02"}, Order(id=1, due=MIDNIGHT.date())),
        (Annotated[int, pydantic.Field(ge=1)], 1, 1),
        (Annotated[str, msgspec.Meta(pattern="^a+$")], "aa", "aa"),
        (Even, {"n": 2}, Even(2)),
    ],
)  # fmt: skip
def test_what_fits_is_converted(annotation: Any, value: Any, expected: Any) -> None:
    found = read(annotation, value)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (int, "3", "`a` must be an integer, got a string"),
        (int, True, "`a` must be an integer, got a boolean"),
        (int, 1.5, "`a` must be an integer"),
        (int, float("nan"), "`a` must be an integer"),
        (float, "x", "`a` must be a number, got a string"),
        (float, 10**400, "`a` is too large a number"),
        (str, None, "`a` must be a string, got null"),
        (bool, 1, "`a` must be a boolean, got a number"),
        (bytes, "aGk=", "`a` must be a Uint8Array, got a string"),
        (dt.datetime, "soon", "`a` must be a Date"),
        (dt.date, NOON, '`a` must be a date such as "2030-12-31", got a Date with a time of day'),
        (dt.timedelta, 1e300, "`a` is out of range for a number of seconds"),
        (decimal.Decimal, "NaN", "`a` must be a finite decimal of at most 4,300 digits"),
        (decimal.Decimal, "1e999999", "`a` must be a finite decimal of at most 4,300 digits"),
        (decimal.Decimal, True, '`a` must be a decimal such as "12.50", got a boolean'),
        (uuid.UUID, "x", "`a` must be a UUID"),
        (pathlib.Path, "a\0b", "`a` must be a path, which has no zero character"),
        (Color, "blue", '`a` must be one of "red", 1, (1, \'a\')'),
        (Color, True, '`a` must be one of "red", 1, (1, \'a\')'),
        (Access, 8, "`a` is not a valid combination of flags"),
        (Literal["a", 1], 1.0, '`a` must be one of "a", 1'),
        (Optional[int], "x", "`a` must be an integer, got a string"),
        (Union[int, str], [], "`a` must be an integer or a string, got an array"),
        (Union[Item, Address], {"x": 1}, "`a` fits none of the 2 alternatives"),
        (list[int], {1}, "`a` must be an array, got a Set"),
        (list[Item], [{"price": "1"}, {"price": None}], '`a[1].price` must be a decimal such as "12.50", got null'),
        (tuple[int, str], [1], "`a` must be an array of 2, got one of 1"),
        (set[int], ["x"], "`a[0]` must be an integer, got a string"),
        (set[list[int]], [[1]], "`a` has members that Python cannot hash: send arrays of plain values"),
        (dict[str, int], {1: 1}, "`a` has a key that must be a string, got a number"),
        (dict[int, int], {"x": 1}, "`a` has a key that has a property whose name is no number"),
        (dict[str, int], {"k e": "x"}, '`a["k e"]` must be an integer, got a string'),
        (Address, {"zip": 1}, "`a.city` is missing"),
        (Address, {"city": "x", "town": 1}, '`a` has no property "town"; there are city, zip'),
        (Order, {"id": "x"}, "`a.id` is refused: Input should be a valid integer, unable to parse string as an integer"),
        (Order, {"id": 1, "note": "123456"}, "`a.note` is refused: String should have at most 5 characters"),
        (Annotated[int, pydantic.Field(ge=1, lt=3)], 3, "`a` must be less than 3"),
        (Annotated[list[int], msgspec.Meta(max_length=1)], [1, 2], "`a` must have at most 1 of length"),
        (Annotated[str, msgspec.Meta(pattern="^a+$")], "b", "`a` must match the pattern ^a+$"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(annotation: Any, value: Any, said: str) -> None:
    assert refusal(annotation, value) == said


@pytest.mark.parametrize(("annotation", "value"), [(Even, {"n": 1}), (Order, {"id": -1})])
def test_texts_of_the_application_stay_there(annotation: Any, value: Any) -> None:
    assert "secret" not in refusal(annotation, value)
    assert read(annotation, {next(iter(value)): 2})


def test_several_problems_are_listed_and_only_so_many() -> None:
    def send(to: str, items: list[Item], due: dt.date | None = None) -> None: ...

    spec = build_specs([send])["send"]
    with pytest.raises(ToolArgumentError) as caught:
        bind_arguments(spec, [1, [{"price": "1"}, {"price": {}, "colour": 1}], 5], namespace="tools")
    assert str(caught.value) == (
        "send:\n"
        "- `to` must be a string, got a number\n"
        '- `items[1].price` must be a decimal such as "12.50", got an object\n'
        '- `items[1]` has no property "colour"; there are price, color, tags\n'
        "- and more\n"
        'write await tools.send("...", [{price: "..."}])'
    )
    with pytest.raises(ToolArgumentError) as caught:
        bind_arguments(spec, ["x", ["x" * 99] * 100_000])
    assert len(str(caught.value)) < 400


def test_undefined_null_and_defaults() -> None:
    def f(a: int, b: int = 7, c: int = None, *rest: int) -> None: ...  # type: ignore[assignment]

    spec = build_specs([f])["f"]
    assert bind_arguments(spec, [1, UNDEFINED, None, 4]) == ([1, 7, None, 4], {})
    for args, said in [
        ([UNDEFINED, 1], "`a` must be an integer, got undefined"),
        ([1, None], "`b` must be an integer, got null (leave it out if there is none)"),
        ([1, 1, 1, 1, "x"], "`rest[1]` must be an integer, got a string"),
    ]:
        with pytest.raises(ToolArgumentError) as caught:
            bind_arguments(spec, args)
        assert said in str(caught.value)


def test_what_takes_too_long_is_refused() -> None:
    # Two alternatives that contain each other: each level of the value doubles the work.
    namespace: dict[str, Any] = {}
    source = "@dataclasses.dataclass\nclass A:\n a: A | B | None\n@dataclasses.dataclass\nclass B:\n a: A | B | None\n"
    exec(source, {"dataclasses": dataclasses, "__name__": __name__}, namespace)
    a, b = namespace["A"], namespace["B"]
    for cls in (a, b):
        cls.__annotations__ = {"a": Union[a, b, None]}
    value: Any = {"a": 1}
    for _ in range(30):
        value = {"a": value}
    assert "too large or too deep" in refusal(a, value)
    assert read(a, {"a": {"a": None}}) == a(a(None))


def test_hashes_that_collide_are_refused() -> None:
    same = [i * (2**61 - 1) for i in range(1, 200)]
    for annotation in (set[int], set[decimal.Decimal], set[tuple[int, int]], frozenset[float | int]):
        value: Any = [[n, 1] for n in same] if "tuple" in str(annotation) else same
        assert "equal hashes" in refusal(annotation, value)
    assert read(set[int], list(range(200))) == set(range(200))
    assert "equal hashes" in refusal(dict[int, int], {str(n): 1 for n in same})


def test_it_can_be_switched_off() -> None:
    spec = tool(int)
    assert bind_arguments(spec, ["x"], validate=False) == (["x"], {})
    given: list[Any] = []

    def later(when: dt.date, n: Annotated[int, pydantic.Field(ge=0)]) -> str:
        given.append((when, n))
        return "ok"

    with AgentSandbox([later], isolation="inline") as session:
        assert session.run("return await later('2030-01-02', 1)") == "ok"
        with pytest.raises(JavaScriptError) as caught:
            session.run("await later('2030-01-02', -1)")
        assert (caught.value.name, "must be at least 0" in caught.value.message) == ("TypeError", True)
        step = session.start("return await later(5, 1)")
        with pytest.raises(ToolArgumentError, match="`when` must be a date"):
            session.call(step)
        session.resume(step, "answered by hand")
    with AgentSandbox([later], isolation="inline", validate=False) as session:
        assert session.run("return await later('x', -1)") == "ok"
    assert given == [(dt.date(2030, 1, 2), 1), ("x", -1)]
    with pytest.raises(ValueError, match="`validate` must be"):
        AgentSandbox([later], isolation="inline", validate="no")  # type: ignore[arg-type]


def test_functions_of_a_catalog_are_checked_too() -> None:
    def later(when: dt.date, days: int = 1) -> str:
        return (when + dt.timedelta(days)).isoformat()

    with AgentSandbox([], tools_catalog=[later], isolation="inline") as session:
        session.run("await describe_tool('later')")
        assert session.run("return await tools.later({when: '2030-01-02'})") == "2030-01-03"
        with pytest.raises(JavaScriptError, match="`days` must be an integer, got a string"):
            session.run("await tools.later({when: '2030-01-02', days: 'x'})")


# ── the schema that the model is told and the readers agree ──────────────────────────────────────────────────────────

_leaves = st.sampled_from([int, float, str, bool, None, Any, Level, Literal["a", 1, True], Annotated[int, msgspec.Meta(ge=0, le=5)],
                           Annotated[str, msgspec.Meta(min_length=2)], Address])  # fmt: skip
_annotations = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(lambda a: list[a], inner),
        st.builds(lambda a: dict[str, a], inner),
        st.builds(lambda a, b: Union[a, b], inner, inner),
        st.builds(lambda a, b: tuple[a, b], inner, inner),
        st.builds(lambda a: tuple[a, ...], inner),
    ),
    max_leaves=5,
)
_values = st.recursive(
    st.sampled_from([0, 1, 7, -1, 1.5, "", "a", "ab", True, False, None]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["city", "zip", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(_annotations, st.lists(_values, min_size=3, max_size=3))
@settings(max_examples=400, deadline=None)
def test_the_schema_takes_what_the_readers_take(annotation: Any, values: list[Any]) -> None:
    """Jsonschema-rs is the other opinion. A `TypedDict` may have more keys for it."""
    schema = dict(schema_of_annotation(annotation))
    for definition in schema.get("$defs", {}).values():
        definition["additionalProperties"] = False
    validator = jsonschema_rs.validator_for(schema)
    for value in values:
        try:
            read(annotation, value)
            taken = True
        except ToolArgumentError:
            taken = False
        assert taken == (validator.is_valid(value) or (annotation is None and value is None)), (annotation, value)


def test_the_readers_read_what_the_host_writes() -> None:
    """What `encode` makes of a value reads back as that value."""
    from gloveport.wire.values import decode_arguments, encode

    for annotation, value in [
        (Item, Item(decimal.Decimal("1.5"), Color.ONE, {"a"})), (Point, Point(1)), (dt.time, dt.time(1)),
        (list[uuid.UUID], [uuid.UUID(ID)]), (dict[str, dt.datetime], {"a": NOON}), (Order, Order(id=1)),
        (Node, Node([Node([])])), (Access, Access.READ), (tuple[bytes, ...], (b"a",)),
    ]:  # fmt: skip
        (back,) = decode_arguments(encode([value]), 3)
        assert read(annotation, back) == value


def test_a_callable_annotation_takes_anything() -> None:
    assert read(Callable[[], int], 5) == 5
