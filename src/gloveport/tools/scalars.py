"""Readers of single values: from what crossed to what a Python annotation asks for.

A reader takes a value and returns it converted, or raises `Misfit`. Conversions lose nothing: text is not read as a number, a number
not as text, a boolean as neither.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any, Final, cast

from .problems import Misfit, quoted

__all__ = ("EXACT", "SCALARS", "Budget", "Reader", "anything", "choice", "exact", "of_enum", "subclass")

_MAX_EXPONENT: Final = 4300
"""Digits before or behind the point of a Decimal, as Python's own limit for integers: `int(Decimal("1e999999999"))` takes for ever."""
_SHOWN: Final = 8


class Budget:
    """What may still be looked at for one call. Alternatives that contain each other are tried again and again."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


Reader = Callable[[Any, Budget], Any]


def anything(value: Any, _: Budget) -> Any:
    """Nothing is known of it."""
    return value


def exact(kind: type[Any], expected: str) -> Reader:
    """A value that crosses as what is asked for."""

    def read(value: Any, _: Budget) -> Any:
        if type(value) is kind:
            return value
        raise Misfit.of(expected, value)

    return read


def _int(value: Any, _: Budget) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JavaScript has no other integers beyond 2^53
        return int(value)
    raise Misfit.of("an integer", value) if type(value) is not float else Misfit([((), "must be an integer")])


def _float(value: Any, _: Budget) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Misfit([((), "is too large a number")]) from None
    raise Misfit.of("a number", value)


def _none(value: Any, _: Budget) -> None:
    if value is not None:
        raise Misfit.of("null", value)


def _bytearray(value: Any, budget: Budget) -> bytearray:
    return bytearray(_bytes(value, budget))


def _memoryview(value: Any, budget: Budget) -> memoryview:
    return memoryview(_bytes(value, budget))


def _datetime(value: Any, _: Budget) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    expected = "a Date"
    found = _parsed(dt.datetime.fromisoformat, value, expected)
    return found if found.tzinfo else found.replace(tzinfo=dt.timezone.utc)  # naive means UTC, as on the way out


def _date(value: Any, _: Budget) -> dt.date:
    if isinstance(value, dt.datetime):
        if value.time() != dt.time():
            raise Misfit([((), 'must be a date such as "2030-12-31", got a Date with a time of day')])
        return value.date()
    return _parsed(dt.date.fromisoformat, value, 'a date such as "2030-12-31"')


def _time(value: Any, _: Budget) -> dt.time:
    return _parsed(dt.time.fromisoformat, value, 'a time such as "23:59:00"')


def _timedelta(value: Any, _: Budget) -> dt.timedelta:
    if type(value) in (int, float):
        try:
            return dt.timedelta(seconds=value)
        except (OverflowError, ValueError):
            raise Misfit([((), "is out of range for a number of seconds")]) from None
    raise Misfit.of("a number of seconds", value)


def _decimal(value: Any, _: Budget) -> decimal.Decimal:
    text = str(value) if type(value) in (int, float) else value
    found = _parsed(decimal.Decimal, text, 'a decimal such as "12.50"')
    if not found.is_finite() or abs(found.adjusted()) > _MAX_EXPONENT or len(found.as_tuple().digits) > _MAX_EXPONENT:
        raise Misfit([((), "must be a finite decimal of at most 4,300 digits")])
    return found


def _uuid(value: Any, _: Budget) -> uuid.UUID:
    return _parsed(uuid.UUID, value, "a UUID")


def _parsed(parse: Callable[[str], Any], value: Any, expected: str) -> Any:
    if type(value) is not str:
        raise Misfit.of(expected, value)
    try:
        return parse(value)
    except (ValueError, ArithmeticError):
        raise Misfit([((), f"must be {expected}")]) from None


_bytes: Final = exact(bytes, "a Uint8Array")
EXACT: Final[dict[Any, type[Any]]] = {
    str: str,
    bool: bool,
    int: int,
    float: float,
    bytes: bytes,
    dt.datetime: dt.datetime,
}
"""Annotations to the type of the values that are already what is asked for."""
SCALARS: Final[dict[Any, Reader]] = {
    None: _none,
    type(None): _none,
    str: exact(str, "a string"),
    bool: exact(bool, "a boolean"),
    int: _int,
    float: _float,
    bytes: _bytes,
    bytearray: _bytearray,
    memoryview: _memoryview,
    dt.datetime: _datetime,
    dt.date: _date,
    dt.time: _time,
    dt.timedelta: _timedelta,
    decimal.Decimal: _decimal,
    uuid.UUID: _uuid,
}


def choice(options: tuple[Any, ...]) -> Reader:
    """`Literal`: a member of an enumeration stands for its value."""
    plain = [(option.value if isinstance(option, enum.Enum) else option, option) for option in options]
    expected = _expected([value for value, _ in plain])

    def read(value: Any, _: Budget) -> Any:
        for wire, option in plain:
            if type(wire) is type(value) and wire == value:
                return option
        raise Misfit([((), expected)])

    return read


def _flags(cls: type[enum.Flag], value: int) -> enum.Flag:
    found = cls(value)
    if found.value != value:  # Python 3.11.2 drops bits that no flag has
        raise ValueError(value)
    return found


def of_enum(cls: type[enum.Enum]) -> Reader:
    """A member by its value."""
    if issubclass(cls, enum.Flag):
        return _made(lambda value: _flags(cls, value), _int, "combination of flags")
    members = list(cls)
    by_value: dict[Any, enum.Enum] = {
        (type(member.value), member.value): member for member in members if _hashable(member.value)
    }
    expected = _expected([member.value for member in members])

    def read(value: Any, _: Budget) -> Any:
        # By type as well: 1, 1.0 and true are equal in Python. A mixed-in type (`IntEnum`) has its plain values.
        if _hashable(value) and (found := by_value.get((type(value), value))) is not None:
            return found
        for member in members:
            if not _hashable(member.value) and list_form(member.value) == value:
                return member
        raise Misfit([((), expected)])

    return read


def list_form(value: Any) -> Any:
    """A value as it would come back."""
    return [list_form(item) for item in cast("tuple[Any, ...]", value)] if isinstance(value, (list, tuple)) else value


def _hashable(value: Any) -> bool:
    return type(value) in (str, int, float, bool, bytes, type(None), dt.datetime)


def _expected(values: list[Any]) -> str:
    shown = ", ".join(_shown(value) for value in values[:_SHOWN])
    return f"must be {'one of ' if len(values) > 1 else ''}{shown}{', …' if len(values) > _SHOWN else ''}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)[:40]


def subclass(cls: type[Any], base: Any) -> Reader:
    """A class that derives from a builtin, such as a `str` with methods."""
    return _made(cls, SCALARS[base], cls.__name__)


def _made(cls: Callable[[Any], Any], inner: Reader, what: str) -> Reader:
    def read(value: Any, budget: Budget) -> Any:
        plain = inner(value, budget)
        try:
            return cls(plain)
        except Exception:  # the class is the application's, and its texts are not for the guest
            raise Misfit([((), f"is not a valid {what}")]) from None

    return read
