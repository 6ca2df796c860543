"""`gloveport bench arguments`: what it costs that arguments are checked, against the same session with `validate=False`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .report import Row

__all__ = ("BARS", "measure")

BARS: Final[Mapping[str, float]] = {"echo(value)": 1.05, "(a: int, b: str)": 1.05, "schema tool": 1.1, "specs": 0.25}
"""Checked divided by unchecked, at most; of `specs`: of known functions divided by of new ones."""
_CALLS: Final = 200


def _echo(value: Any) -> Any:
    return value


def _two(a: int, b: str) -> int:
    return a


_TOOLS: Final[dict[str, Any]] = {
    "echo": _echo,
    "two": _two,
    "named": {
        "name": "named",
        "callable": _echo,
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
            "required": ["a"],
        },
    },
}
_LOOP: Final = f"for (let i = 0; i < {_CALLS}; i++) await %s; return 1"
_CODES: Final = {
    "echo(value)": _LOOP % "echo(i)",
    "(a: int, b: str)": _LOOP % "two(i, 'x')",
    "schema tool": _LOOP % "named({a: i, b: 'x'})",
}


def measure(*, quick: bool) -> list[Row]:
    """All rows; inline sessions, where a call is shortest and checking weighs most."""
    from ..host.sync import AgentSandbox

    samples = 15 if quick else 61
    with (
        AgentSandbox(_TOOLS, isolation="inline") as checked,
        AgentSandbox(_TOOLS, isolation="inline", validate=False) as unchecked,
    ):
        rows = [
            _row(name, "validate=False", samples, lambda c=code: checked.run(c), lambda c=code: unchecked.run(c))
            for name, code in _CODES.items()
        ]
    return [*rows, _row("specs", "of new functions", samples, *_specs())]


def _specs() -> tuple[Callable[[], Any], Callable[[], Any]]:
    from ..tools.spec import build_specs

    def known() -> None:
        for _ in range(50):
            build_specs({"two": _two})

    def new() -> None:
        for _ in range(50):
            exec("def two(a: int, b: str) -> int: ...", names := {})  # noqa: S102  a function that nobody knows yet
            build_specs({"two": names["two"]})

    return known, new


def _row(name: str, peer: str, samples: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Row:
    """Medians of the two in turn; the ratio is the median of the pairs', which noise that lasts does not shift."""
    pairs: list[tuple[float, float]] = []
    for index in range(samples + 2):
        first, second = (ours, theirs) if index % 2 else (theirs, ours)
        times = _seconds(first), _seconds(second)
        pairs.append(times if index % 2 else (times[1], times[0]))
    mine, other = (statistics.median(side) for side in zip(*pairs[2:], strict=True))
    ratio, bar = statistics.median(one / two for one, two in pairs[2:]), BARS[name]
    return Row(name=name, ours=mine, unit="s", peer=peer, peer_value=other, ratio=ratio, bar=bar, ok=ratio <= bar)


def _seconds(function: Callable[[], Any]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began
