"""The bench measures every promise about arguments."""

from __future__ import annotations

from gloveport.bench import arguments


def test_every_bar_has_a_row() -> None:
    rows = arguments.measure(quick=True)
    assert {row.name: row.bar for row in rows} == dict(arguments.BARS)
    assert all(row.ratio for row in rows)
