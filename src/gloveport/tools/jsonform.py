"""Values of a guest as the JSON data that a schema speaks of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

from ..types import json_data
from .problems import Misfit

__all__ = ("json_form",)

_PLAIN: Final = frozenset((int, bool, type(None)))


def json_form(value: Any) -> Any:
    """The value itself where it is JSON data. A Date becomes its ISO text, bytes base64, a Set an array, a Map an object.

    Raises `Misfit` for what JSON has not: NaN, infinities, half a surrogate pair.
    """
    what = type(value)  # pyright: ignore[reportUnknownVariableType]
    if what is str:
        return value if value.isascii() else _checked(value)
    if what in _PLAIN:
        return value
    if what is dict:
        return _object(value)
    if what is list:
        return _array(value)
    if what is float:
        return _finite(value)
    if isinstance(value, (set, frozenset, tuple)):
        return _array(list(cast("Sequence[Any]", value)))
    return json_data(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise Misfit([((), "must be a finite number")])
    return value


def _checked(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Misfit([((), "has half of a surrogate pair: use toWellFormed() on the text")]) from None
    return text


def _object(value: dict[Any, Any]) -> dict[str, Any]:
    out = value
    key = None
    try:
        for key, item in value.items():
            if type(key) is not str:  # a Map
                return _object({str(json_data(key)): inner for key, inner in value.items()})
            if not key.isascii():
                _checked(key)
            what = cast("Any", type(item))
            if what in _PLAIN or (what is str and item.isascii()):
                continue
            new = json_form(item)
            if new is not item:
                out = dict(value) if out is value else out
                out[key] = new
    except Misfit as misfit:
        raise Misfit(misfit.under(str(key))) from None
    return out


def _array(value: list[Any]) -> list[Any]:
    out = value
    index = 0
    try:
        for index, item in enumerate(value):
            new = json_form(item)
            if new is not item:
                out = list(value) if out is value else out
                out[index] = new
    except Misfit as misfit:
        raise Misfit(misfit.under(index)) from None
    return out
