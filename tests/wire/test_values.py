"""Values: what crosses, what comes back, and what is said of the rest."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import ProtocolViolation, ValueCrossingError
from gloveport.wire.values import MAX_DEPTH, MAX_SAFE_INTEGER, MAX_VALUES, UNDEFINED, decode, decode_arguments, encode

UTC = dt.timezone.utc
dates = st.datetimes(min_value=dt.datetime(1, 1, 2), max_value=dt.datetime(9999, 12, 30)).map(
    lambda d: d.replace(microsecond=d.microsecond // 1000 * 1000, tzinfo=UTC)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=8)
    | dates
)
keys = st.text(st.characters(), max_size=4) | st.just("$")
values = st.recursive(scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(keys, v, max_size=4), max_leaves=20)


def flags(raw: bytes) -> int:
    """What an echoing guest would say of the value."""
    return (1 if b'"$"' in raw else 0) | (2 if b"\\ud" in raw.lower() else 0)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, (int, float)) and not isinstance(b, bool):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


@given(values)
def test_what_crosses_comes_back(value):
    raw = encode(value)
    assert same(value, decode(raw, flags(raw)))


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    when: dt.date


class Model:
    def model_dump(self):
        return {"a": {1, 2}}


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
        (MAX_SAFE_INTEGER + 1, {"$": "bigint", "v": str(2**53)}),
        (-(2**60) - 1, {"$": "bigint", "v": str(-(2**60) - 1)}),
        (math.nan, {"$": "number", "v": "NaN"}),
        ([-math.inf], [{"$": "number", "v": "-Infinity"}]),
        (-0.0, {"$": "number", "v": "-0"}),
        ({"$": 1}, {"$": "object", "v": {"$": 1}}),
        ({1: "a", Color.RED: 2}, {"1": "a", "red": 2}),
        ({(1, 2): 3}, {"$": "map", "v": [[[1, 2], 3]]}),
        ((1, 2), [1, 2]),
        (range(3), [0, 1, 2]),
        (Color.RED, "red"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(1970, 1, 1, 0, 0, 1), {"$": "date", "v": 1000}),
        (dt.timedelta(seconds=1.5), 1.5),
        (Point(1, dt.date(2026, 1, 2)), {"x": 1, "when": "2026-01-02"}),
        (Model(), {"a": {"$": "set", "v": [1, 2]}}),
        (bytearray(b"ab"), {"$": "bytes", "v": "YWI="}),
        (UNDEFINED, {"$": "undefined"}),
        ("cut\ud83d", "cut\ud83d"),
        (True, True),
    ],
)
def test_python_to_wire(value, wire):
    assert json.loads(encode(value)) == wire


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "a value of type `object`"),
        ({"lines": [{"order": object()}]}, r"at `lines\[0\]\.order`"),
        ([lambda: 1], r"at `\[0\]`"),
        pytest.param(1 << 20_000, "4,300 digits", id="big"),
        (range(MAX_VALUES + 1), "more than 1,000,000 values"),
    ],
)
def test_what_cannot_cross_is_named(value, text):
    with pytest.raises(ValueCrossingError, match=text):
        encode(value)


def test_depth_and_cycles_are_bounded_and_the_bound_passes():
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    encode(deep)
    for value in (cycle, [deep]):
        with pytest.raises(ValueCrossingError, match="deeper than 200"):
            encode(value)


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ({"$": "map", "v": [[1, "a"]]}, {1: "a"}),
        ({"$": "map", "v": [[{"k": 1}, "a"]]}, [[{"k": 1}, "a"]]),
        ({"$": "set", "v": [1, 1]}, {1}),
        ({"$": "set", "v": [{"a": 1}]}, [{"a": 1}]),
        ({"$": "error", "v": {"name": "E", "message": "m"}}, {"name": "E", "message": "m"}),
        ([{"$": "undefined"}], [None]),
    ],
)
def test_wire_to_python(wire, value):
    assert decode(json.dumps(wire).encode(), 1) == value


def test_an_undefined_argument_is_told_apart_from_null():
    assert decode_arguments(b'[null,{"$":"undefined"},[{"$":"undefined"}]]', 1) == [None, UNDEFINED, [None]]


@pytest.mark.parametrize(
    "wire",
    ['{"$":"x"}', '{"$":1}', '{"$":"bytes","v":"*"}', '{"$":"map","v":3}', '{"$":"number","v":"1"}', "[", '"\\ud83d"'],
)
def test_malformed_values_are_a_protocol_violation(wire):
    with pytest.raises(ProtocolViolation):
        decode(wire.encode(), 1)


@pytest.mark.parametrize(
    "wire", ['{"$":"date","v":null}', '{"$":"date","v":9e15}', '{"$":"bigint","v":"%s"}' % ("9" * 5000)]
)
def test_guest_values_that_python_cannot_hold_are_an_error_of_the_value(wire):
    with pytest.raises(ValueCrossingError):
        decode(wire.encode(), 1)
