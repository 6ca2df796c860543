"""Limits that an annotation names beside its type: `Annotated[int, Field(ge=1)]`.

Those of annotated-types, pydantic's `Field` and msgspec's `Meta` are understood by their attributes, so that none of them has to be
installed. The result are the keywords of JSON Schema for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, Final, cast

__all__ = ("check_of", "constraints_of")

_KEYWORDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_SIZES: Final = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}


def constraints_of(metadata: Iterable[Any], kind: Any) -> dict[str, Any]:
    """Keywords for the metadata of an `Annotated` type; `kind` is the `type` of its schema."""
    found: dict[str, Any] = {}
    for item in metadata:
        inner: Any = getattr(item, "metadata", None)  # pydantic's `Field`
        if isinstance(inner, (list, tuple)):
            found.update(constraints_of(cast("list[Any]", inner), kind))
            continue
        for attribute, keyword in _KEYWORDS.items():
            value = getattr(item, attribute, None)
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                found[keyword] = value
        names = _SIZES.get(kind, ("minProperties", "maxProperties"))
        for attribute, keyword in zip(("min_length", "max_length"), names, strict=True):
            value = getattr(item, attribute, None)
            if type(value) is int:
                found[keyword] = value
    return found


_BOUNDS: Final[dict[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "minimum": ("at least", lambda value, limit: value >= limit),
    "exclusiveMinimum": ("more than", lambda value, limit: value > limit),
    "maximum": ("at most", lambda value, limit: value <= limit),
    "exclusiveMaximum": ("less than", lambda value, limit: value < limit),
    "multipleOf": ("a multiple of", lambda value, limit: value % limit == 0),
}
_LENGTHS: Final = {
    "minLength": 1,
    "minItems": 1,
    "minProperties": 1,
    "maxLength": -1,
    "maxItems": -1,
    "maxProperties": -1,
}


def check_of(keywords: dict[str, Any]) -> Callable[[Any], str | None]:
    """Says what is wrong with a converted value, or `None`."""
    pattern = _pattern(keywords["pattern"]) if "pattern" in keywords else None

    def check(value: Any) -> str | None:
        for keyword, limit in keywords.items():
            if keyword in _BOUNDS:
                words, holds = _BOUNDS[keyword]
                if not _holds(holds, value, limit):
                    return f"must be {words} {limit}"
            elif keyword in _LENGTHS and isinstance(value, Sized):
                if (len(value) - limit) * _LENGTHS[keyword] < 0:
                    return f"must have {'at least' if _LENGTHS[keyword] > 0 else 'at most'} {limit} of length"
            elif pattern is not None and isinstance(value, str) and not pattern(value):
                return f"must match the pattern {keywords['pattern']}"
        return None

    return check


def _holds(holds: Callable[[Any, Any], bool], value: Any, limit: Any) -> bool:
    try:
        return bool(holds(value, limit))
    except (
        TypeError,
        ArithmeticError,
    ):  # a date under a number's limit; a Decimal with too many digits for the context
        return False


def _pattern(pattern: str) -> Callable[[Any], bool]:
    from .validators import Validators  # takes 60 ms to import; few tools need it

    return Validators.of({"pattern": pattern}).fits
