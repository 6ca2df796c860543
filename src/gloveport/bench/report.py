"""The shape that every bench of the project has: rows, a table, JSON, and bars that fail."""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from collections.abc import Callable, Sequence

__all__ = ("Row", "median_of", "show")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One measured thing."""

    name: str
    ours: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    """Ours divided by the peer's (or by the other of ours): medians of samples taken in turn."""
    bar: float | None = None
    """The ratio that is promised at most."""
    ok: bool | None = None

    def against(self, bar: float | None) -> Row:
        """The same with its ratio to the peer, and whether that is within the bar, if there is one."""
        if not self.peer_value:
            raise ValueError(f"{self.name}: there is nothing to compare with")
        ratio = self.ours / self.peer_value
        return dataclasses.replace(self, ratio=ratio, bar=bar, ok=None if bar is None else ratio <= bar)


def median_of(samples: int, *subjects: Callable[[], float]) -> list[float]:
    """The median of each subject, sampled in turn, so that a change of the machine's speed meets all of them."""
    taken: list[list[float]] = [[] for _ in subjects]
    for _ in range(samples):
        for subject, values in zip(subjects, taken, strict=True):
            values.append(subject())
    return [statistics.median(values) for values in taken]


def show(rows: Sequence[Row], *, as_json: bool, check: bool) -> int:
    """Print the rows; with `check` gives 1 when a bar was missed, and prints the missed rows last."""
    if as_json:
        print(json.dumps({"rows": [dataclasses.asdict(row) for row in rows]}, indent=1))
    else:
        for row in rows:
            print(_line(row))
    missed = [row for row in rows if row.ok is False]
    if check and missed:
        print("\nmissed:", file=sys.stderr)
        for row in missed:
            print(_line(row), file=sys.stderr)
        return 1
    return 0


def _line(row: Row) -> str:
    text = f"{row.name:<44} {_figure(row.ours, row.unit):>12}"
    if row.peer is not None and row.peer_value is not None and row.ratio is not None:
        text += f"  {row.peer:<16} {_figure(row.peer_value, row.unit):>12}  ratio {row.ratio:8.4f}"
    if row.bar is not None:
        text += f"  bar {row.bar:.4f}  {'ok' if row.ok else 'MISSED'}"
    return text


def _figure(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.3f} ms"
    return f"{value / 1024:.0f} KiB" if unit == "bytes" else f"{value:.3g} {unit}"
