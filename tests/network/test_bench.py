"""The bars of the bench are the promises, and it measures."""

from __future__ import annotations

from pathlib import Path

from gloveport.bench import network

TEXT = (Path(__file__).parents[2] / "SPECIFICATION.md").read_text("utf-8")


def test_the_bars_are_the_promises_of_the_specification():
    for name, bar in network.BARS.items():
        assert f"| {name} | {bar:g} |" in TEXT


def test_it_measures(monkeypatch):
    monkeypatch.setattr(network, "_requests", lambda url, *_: f"return (await fetch('{url}')).status === 200 ? 2 : 0")
    monkeypatch.setattr(network, "_download", lambda url, *_: "return 3")
    rows = network.measure(quick=True)
    assert [(row.name, row.ours, row.ratio, row.ok) for row in rows[:1]] == [("request", 2.0, 1.0, True)]
    assert len(rows) == len(network.BARS)
