"""Ranges of versions that mean the same: Deno notes them in a lock in a form of its own (2.9.8: `1.x`, `^1.0` and `^1` all as `1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ("noted",)

_PART: Final = r"(\d{1,9}|[xX*])"
_RANGE: Final = re.compile(rf"([~^]?){_PART}(?:\.{_PART})?(?:\.{_PART})?(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


def noted(specifier: str, versions: Mapping[str, str]) -> str | None:
    """What a lock's `specifiers` say of `npm:name@range` or `jsr:name@range`, however they write the range."""
    found = versions.get(specifier)
    if found is not None:
        return found
    package, _, text = specifier.rpartition("@")
    wanted = _bounds(text)
    if wanted is None:
        return None
    same = (key for key in versions if key.rpartition("@")[0] == package and _bounds(key.rpartition("@")[2]) == wanted)
    return next((versions[key] for key in same), None)


def _bounds(text: str) -> tuple[tuple[int, ...], str, tuple[int, ...]] | None:
    """The lowest version and the first one that is too high; `None`: it is a tag."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    sign, *parts, early = match.groups()
    numbers: list[int] = []
    for part in parts:
        if part is None or not part.isdecimal():
            break
        numbers.append(int(part))
    if not numbers:
        return (0, 0, 0), "", ()
    last = len(numbers) - 1
    if sign == "^":
        last = next((index for index, number in enumerate(numbers) if number), last)
    elif sign == "~":
        last = min(1, last)
    high = [*numbers[:last], numbers[last] + 1]
    return _three(numbers), early or "", _three(high)


def _three(numbers: list[int]) -> tuple[int, ...]:
    return (*numbers, *[0] * (3 - len(numbers)))
