"""What does not fit about the arguments of a call, in words for the model. Nothing here tells a value of the host."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = (
    "MAX_PROBLEMS",
    "Misfit",
    "Problem",
    "Step",
    "TooMuchToCheck",
    "kind",
    "listed",
    "place",
    "quoted",
    "unknown_names",
)

Step = str | int
"""A property, or an index."""
Problem = tuple[tuple[Step, ...], str]
"""Where, and what is wrong there."""
MAX_PROBLEMS: Final = 3
"""As many are told of one call."""
_MAX_NAME: Final = 40
_SHOWN_NAMES: Final = 8
_MAX_PLACE: Final = 120
_MAX_TEXT: Final = 240
_MAX_EXAMPLE: Final = 300


class Misfit(Exception):
    """A value does not fit. Its problems are as seen from that value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = problems

    @classmethod
    def of(cls, expected: str, value: Any) -> Misfit:
        """`must be a string, got null`."""
        return cls([((), f"must be {expected}, got {kind(value)}")])

    def under(self, step: Step) -> list[Problem]:
        """The problems as seen from what holds the value."""
        return [((step, *path), text) for path, text in self.problems]


class TooMuchToCheck(Exception):
    """Checking a value would take too long."""


def kind(value: Any) -> str:
    """What the model would call a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    for kinds, text in (
        ((int, float), "a number"),
        (str, "a string"),
        ((bytes, bytearray), "a Uint8Array"),
        (dt.datetime, "a Date"),
        (Mapping, "an object"),
        ((set, frozenset), "a Set"),
    ):
        if isinstance(value, kinds):
            return text
    return "an array"


def place(path: Sequence[Step]) -> str:
    """`items[3].price`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and len(step) <= _MAX_NAME:
            text += f".{step}" if text else step
        else:
            text += f"[{quoted(step)}]"
        if len(text) > _MAX_PLACE:
            return f"{text[:_MAX_PLACE]}…"
    return text


def quoted(text: str) -> str:
    """A short text that a guest chose, as JSON."""
    return json.dumps(text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}…")


def unknown_names(value: Mapping[str, Any], known: Sequence[str], path: tuple[Step, ...]) -> list[Problem]:
    """Properties that there are not, each with the name that was probably meant."""
    problems: list[Problem] = []
    for name in value:
        if name not in known:
            shown = ", ".join(known[:_SHOWN_NAMES]) + (", …" if len(known) > _SHOWN_NAMES else "")
            there = f"; there are {shown}" if known else ""
            problems.append((path, f"has no property {quoted(str(name))}{there}"))
            if len(problems) > MAX_PROBLEMS:
                break
    return problems


def listed(tool: str, problems: Sequence[Problem], example: str) -> str:
    """The message: a line per problem, then how to call."""
    lines = [f"`{place(path) or 'the argument'}` {text[:_MAX_TEXT]}" for path, text in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append("and more")
    said = f"{tool}: {lines[0]}" if len(lines) == 1 else f"{tool}:\n" + "\n".join(f"- {line}" for line in lines)
    return f"{said}\nwrite {example}" if len(example) <= _MAX_EXAMPLE else said
