"""Values between Python and the guest. The table is in `PROTOCOL.md`.

Python to wire is `encode`; wire to Python is `decode` and `decode_arguments`. Both name the place of a value that cannot
cross. The plain case (JSON data in both directions) costs one check per value and no copy.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import gc
import json
import math
import pathlib
import re
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from itertools import chain, compress
from typing import Any, Final, cast

import msgspec

from ..errors import ProtocolViolation, ValueCrossingError
from .messages import SURROGATES, TAGGED

__all__ = (
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_SAFE_INTEGER",
    "MAX_VALUES",
    "UNDEFINED",
    "check_hashes",
    "decode",
    "decode_arguments",
    "encode",
)

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""ECMA-262 Number.MAX_SAFE_INTEGER: integers beyond it cross as BigInt, so that no digit is lost."""
MAX_DEPTH: Final = 200
"""Levels of nesting."""
MAX_VALUES: Final = 1_000_000
"""Values in one crossing."""
MAX_BYTES: Final = 63 << 20
"""Bytes of wire JSON in one crossing, both ways: with what is around it, that is less than the largest frame."""

_LEVELS: Final = 2 * MAX_DEPTH + 2
"""Of a value as JSON: a tag is a level of its own. `_untag` and those who walk the result bear this many."""
_NOT_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_MAX_BITS: Final = 14_280
"""Python prints no integer beyond 4,300 digits (CVE-2020-10735)."""
_MAX_TOKENS: Final = 4 * MAX_VALUES
"""Commas and brackets of one crossing: a BigInt is a tagged object with two commas and one bracket."""
_MAX_NUMERIC: Final = 32_768
_MAX_SAME_HASH: Final = 64
_LARGE: Final = 1 << 15
"""Bytes from which it is worth while to keep the collector away."""
_NOTHING: Final = contextlib.nullcontext()
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTAINERS: Final = frozenset((list, dict))
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


class _Undefined:
    """What JavaScript's `undefined` is where `None` would lose something: an argument that was left out."""

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False


UNDEFINED: Final = _Undefined()


# ── Python → wire ────────────────────────────────────────────────────────────────────────────────────────────────────


def encode(value: Any) -> bytes:
    """A Python value as wire JSON.

    Raises `ValueCrossingError`, which names the place, for a value with no counterpart in JavaScript, one nested deeper than
    `MAX_DEPTH`, a cycle, or more than `MAX_VALUES` values or `MAX_BYTES`.
    """
    plain = _Encoder().convert(value)
    try:
        data = msgspec.json.encode(plain)
    except UnicodeEncodeError:  # lone surrogates: the standard library writes them as escapes
        data = json.dumps(plain, separators=(",", ":")).encode("ascii")
    if len(data) > MAX_BYTES:
        raise ValueCrossingError(
            f"it has {len(data)} bytes as JSON; at most {MAX_BYTES} cross at once: give less of it"
        )
    return data


class _Encoder:
    """One crossing: counts values, knows the path only when something goes wrong."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def convert(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str or kind is bool or value is None:
            return value
        if kind is int:
            return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else _big(value)
        if kind is float:
            return value if math.isfinite(value) and (value or math.copysign(1, value) > 0) else _odd_number(value)
        if depth >= MAX_DEPTH:
            raise ValueCrossingError(f"a value is nested deeper than {MAX_DEPTH} levels, or contains itself")
        if kind is list or kind is tuple:
            return self._list(value, depth)
        if kind is dict:
            return self._dict(value, depth)
        return self._rare(value, depth)

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueCrossingError(f"a value holds more than {MAX_VALUES:,} values")

    def _list(self, items: Sequence[Any], depth: int) -> Any:
        self._spend(len(items))
        convert = self.convert
        out: list[Any] | None = None
        for index, item in enumerate(items):
            try:
                new = convert(item, depth + 1)
            except ValueCrossingError as error:
                raise _at(error, f"[{index}]") from None
            if out is not None:
                out.append(new)
            elif new is not item:
                out = [*items[:index], new]
        return items if out is None else out

    def _dict(self, data: dict[Any, Any], depth: int) -> Any:
        self._spend(len(data))
        convert = self.convert
        changed = "$" in data
        out: dict[str, Any] = {}
        for key, item in data.items():
            if type(key) is not str:
                if type(key) is int or isinstance(key, (enum.Enum, str)):
                    plain = key if type(key) is int else getattr(key, "value", key)
                    key, changed = str(plain), True  # noqa: PLW2901  the converted key replaces it on purpose
                else:
                    return self._map(data, depth)
            try:
                new = convert(item, depth + 1)
            except ValueCrossingError as error:
                raise _at(error, key) from None
            if new is not item:
                changed = True
            out[key] = new
        if "$" in out:
            return {"$": "object", "v": out}
        return out if changed else data

    def _map(self, data: Mapping[Any, Any], depth: int) -> Any:
        self._spend(2 * len(data))
        pairs = [[self.convert(key, depth + 1), self.convert(item, depth + 1)] for key, item in data.items()]
        return {"$": "map", "v": pairs}

    def _rare(self, value: Any, depth: int) -> Any:
        for kinds, convert in _CONVERTERS:
            if isinstance(value, kinds):
                return convert(self, value, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._dict(fields, depth)
        for dump in ("model_dump", "__gloveport__"):  # pydantic models; a hook for anyone's own classes
            method = getattr(value, dump, None)
            if callable(method) and not isinstance(value, type):
                return self.convert(method(), depth + 1)
        if isinstance(value, Mapping):
            return self._dict(dict(cast("Mapping[Any, Any]", value)), depth)
        if isinstance(value, Set):
            return {"$": "set", "v": self._list(list(cast("Set[Any]", value)), depth)}
        if isinstance(value, Sequence):
            return self._list(list(cast("Sequence[Any]", value)), depth)
        item = getattr(value, "item", None)  # scalars of array libraries
        if callable(item) and getattr(value, "shape", None) == ():
            return self.convert(item(), depth + 1)
        raise ValueCrossingError(
            f"a value of type `{type(value).__qualname__}` cannot cross into the sandbox: "
            "return JSON data, bytes, a date, a dataclass or a model"
        )


def _big(value: int) -> dict[str, str]:
    if value.bit_length() > _MAX_BITS:
        raise ValueCrossingError("an integer of more than 4,300 digits cannot cross; send it as text")
    return {"$": "bigint", "v": str(value)}


def _odd_number(value: float) -> dict[str, str]:
    if math.isnan(value):
        return {"$": "number", "v": "NaN"}
    if math.isinf(value):
        return {"$": "number", "v": "Infinity" if value > 0 else "-Infinity"}
    return {"$": "number", "v": "-0"}


def _bytes(_: _Encoder, value: Any, __: int) -> Any:
    return {"$": "bytes", "v": base64.b64encode(value).decode("ascii")}


def _datetime(_: _Encoder, value: dt.datetime, __: int) -> Any:
    aware = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)  # naive means UTC
    return {"$": "date", "v": (aware - _EPOCH) // dt.timedelta(milliseconds=1)}


_CONVERTERS: tuple[tuple[Any, Callable[[_Encoder, Any, int], Any]], ...] = (
    (enum.Enum, lambda encoder, value, depth: encoder.convert(value.value, depth)),
    (str, lambda encoder, value, depth: str.__str__(value)),
    (bool, lambda encoder, value, depth: bool(value)),
    (int, lambda encoder, value, depth: encoder.convert(int(value), depth)),
    (float, lambda encoder, value, depth: encoder.convert(float(value), depth)),
    ((bytes, bytearray, memoryview), _bytes),
    (dt.datetime, _datetime),
    ((dt.date, dt.time), lambda encoder, value, depth: value.isoformat()),
    (dt.timedelta, lambda encoder, value, depth: value.total_seconds()),
    ((decimal.Decimal, uuid.UUID, pathlib.PurePath), lambda encoder, value, depth: str(value)),
    (_Undefined, lambda encoder, value, depth: {"$": "undefined"}),
    (
        BaseException,
        lambda encoder, value, depth: {"$": "error", "v": {"name": type(value).__name__, "message": str(value)}},
    ),
)


def _at(error: ValueCrossingError, step: str) -> ValueCrossingError:
    """The same error one level further out. The path stays short however deep the value is."""
    path = getattr(error, "path", "")
    joined = step + (path if path.startswith("[") or not path else "." + path)
    text = getattr(error, "text", str(error))
    shown = joined if len(joined) <= 120 else joined[:117] + "..."
    new = ValueCrossingError(f"at `{shown}`: {text}")
    new.path, new.text = joined[:200], text  # pyright: ignore[reportAttributeAccessIssue]
    return new


# ── wire → Python ────────────────────────────────────────────────────────────────────────────────────────────────────


def decode(raw: bytes | msgspec.Raw, flags: int) -> Any:
    """A wire value as Python data; `undefined` is `None`."""
    value = _parse(raw, flags)
    return _untag(value) if flags & TAGGED else value  # no deeper than `MAX_DEPTH`


def decode_arguments(raw: bytes | msgspec.Raw, flags: int) -> list[Any]:
    """The arguments of a call. An argument that is `undefined` is `UNDEFINED`; one inside a value is `None`."""
    values = _parse(raw, flags)
    if not isinstance(values, list):
        raise ProtocolViolation("the arguments of a call are not a list")
    items = cast("list[Any]", values)
    if not flags & TAGGED:
        return items
    return [UNDEFINED if item == {"$": "undefined"} else _untag(item) for item in items]


def _parse(raw: bytes | msgspec.Raw, flags: int) -> Any:
    data = bytes(raw)
    if len(data) > _MAX_TOKENS and data.count(b"[") + data.count(b"{") + data.count(b",") > _MAX_TOKENS:
        _check_size(data)
    try:
        with _no_collections() if len(data) > _LARGE else _NOTHING:
            value = json.loads(data, parse_constant=_no_constant) if flags & SURROGATES else msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"a guest's value is not of the protocol: {error}") from error
    if type(value) in _CONTAINERS and not _is_shallow(data):
        _check_depth(value)
    return value


@contextlib.contextmanager
def _no_collections() -> Generator[None]:
    """For some milliseconds. What is parsed is new and holds no cycles: the collector would look at each container several times and
    find nothing, which takes a fifth of the time. Two threads may be here: whoever found it enabled enables it again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_shallow(data: bytes) -> bool:
    """Whether valid JSON is certainly not too deep, by its brackets alone: a tenth of the time that a look at the values takes."""
    if len(data) <= MAX_DEPTH:
        return True
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(
            b'\\"', b""
        )  # quotation marks that end no text; pairs first, from the left
    bare = data.translate(None, _NOT_STRUCTURE)
    if 2 * bare.count(b'""') != bare.count(b'"'):  # the first text with brackets in it has a mark that stands alone
        return False
    bare = bare.translate(None, b'"')
    for _ in range(_LEVELS // 2):  # a round takes two levels at most
        bare = bare.replace(b"[]", b"").replace(b"{}", b"")
        if not bare:
            return True
    return False


def _check_size(data: bytes) -> None:
    """A guest counts its values before it sends them; a worker that was taken over can send 20 million empty lists in one frame,
    which would be gigabytes as Python objects. Exact, but slow: only for what looks too large."""
    bare = _TEXT.sub(b"", data)
    if bare.count(b"[") + bare.count(b"{") + bare.count(b",") > _MAX_TOKENS:
        raise ProtocolViolation(f"a guest's value holds more than {MAX_VALUES:,} values")


def _check_depth(value: Any) -> None:
    """What is deeper would end the recursion of whoever walks it. Level by level: a fraction of what parsing costs."""
    level: list[Any] = [value]
    for _ in range(_LEVELS):
        items = list(chain.from_iterable(_members_of(container) for container in level))
        level = list(compress(items, map(_CONTAINERS.__contains__, map(type, items))))
        if not level:
            return
    raise ProtocolViolation(f"a guest's value is nested deeper than {MAX_DEPTH} levels")


def _members_of(container: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", container).values() if type(container) is dict else container


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _untag(value: Any) -> Any:
    if isinstance(value, list):
        return [_untag(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    if "$" not in data:
        return {key: _untag(item) for key, item in data.items()}
    reader = _READERS.get(data["$"]) if isinstance(data["$"], str) else None
    if reader is None:
        raise ProtocolViolation("a guest's value has an unknown tag")
    try:
        return reader(data.get("v"))
    except ValueCrossingError:  # a TypeError itself
        raise
    except (TypeError, KeyError, AttributeError, ValueError) as error:  # `binascii.Error` is a ValueError
        raise ProtocolViolation(f"a guest's value is malformed: {error}") from error


_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


def _bigint(text: Any) -> int:
    if not isinstance(text, str):
        raise TypeError("a BigInt is not text")
    try:
        return int(text)
    except ValueError:  # Python refuses to parse more than 4,300 digits (CVE-2020-10735)
        raise ValueCrossingError(
            "a BigInt of more than 4,300 digits cannot leave the sandbox; send it as text"
        ) from None


def _date(ms: Any) -> dt.datetime:
    if not isinstance(ms, (int, float)):
        raise ValueCrossingError("an invalid Date cannot leave the sandbox")
    try:
        return _EPOCH + dt.timedelta(milliseconds=ms)
    except OverflowError:
        raise ValueCrossingError("a Date outside the years 1 to 9999 cannot leave the sandbox") from None


def check_hashes(items: Iterable[Any], kinds: Any = (int, float)) -> None:
    """Python hashes text with a secret, but numbers without: a Map whose keys are multiples of 2^61-1 takes minutes to become a
    dict, and with some work so do others. So numbers that would collide are refused, and there may be only so many at all."""
    numbers = [item for item in items if isinstance(item, kinds)]
    if len(numbers) <= _MAX_SAME_HASH:
        return
    if len(numbers) > _MAX_NUMERIC:
        raise ValueCrossingError(
            f"a Map or Set of more than {_MAX_NUMERIC:,} numbers cannot leave the sandbox; send an array"
        )
    if len({str(hash(number)) for number in numbers}) < len(numbers) - _MAX_SAME_HASH:
        raise ValueCrossingError("a Map or Set of numbers with equal hashes cannot leave the sandbox; send an array")


def _pairs(items: Any) -> Any:
    pairs: list[tuple[Any, Any]] = [(_untag(key), _untag(item)) for key, item in items]
    check_hashes([key for key, _ in pairs])
    try:
        return dict(pairs)
    except TypeError:  # a key that Python cannot hash: an object, a list
        return [list(pair) for pair in pairs]


def _members(items: Any) -> Any:
    values = [_untag(item) for item in items]
    check_hashes(values)
    try:
        return set(values)
    except TypeError:
        return values


_READERS: dict[str, Callable[[Any], Any]] = {
    "undefined": lambda _: None,
    "number": lambda name: _NUMBERS[name],
    "bigint": _bigint,
    "date": _date,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "map": _pairs,
    "set": _members,
    "object": lambda data: {key: _untag(item) for key, item in data.items()},
    "error": lambda data: {key: _untag(item) for key, item in data.items()},
}
