"""The bars of the bench are the promises, and it measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from gloveport.bench import network, network_boxes

TEXT = (Path(__file__).parents[2] / "SPECIFICATION.md").read_text("utf-8")


def test_the_bars_are_the_promises_of_the_specification():
    for name, bar in network.BARS.items():
        assert f"| {name} | {bar:g} |" in TEXT
    shown = {"gateway of 50 machines": "25 MiB", "next request after the gateway was killed": "0.5 s"}
    for name, bar in network_boxes.BOX_BARS.items():
        assert f"| {name} | {shown.get(name, f'{bar:g}')} |" in TEXT


def test_it_measures(monkeypatch):
    monkeypatch.setattr(network, "_requests", lambda url, *_: f"return (await fetch('{url}')).status === 200 ? 2 : 0")
    monkeypatch.setattr(network, "_download", lambda url, *_: "return 3")
    monkeypatch.setattr(network, "measure_boxes", lambda **_: [])
    rows = network.measure(quick=True)
    assert [(row.name, row.ours, row.ratio, row.ok) for row in rows[:1]] == [("request", 2.0, 1.0, True)]
    assert len(rows) == len(network.BARS)


def test_it_measures_machines(monkeypatch):
    monkeypatch.setattr(network_boxes, "BOXES", 2)
    monkeypatch.setattr(network_boxes, "_SIZE", 1000)
    rows = network_boxes.measure_boxes(quick=True)
    if not rows:
        pytest.skip("machines do not start here")
    assert [row.name for row in rows] == list(network_boxes.BOX_BARS)
    assert all(row.ours > 0 and row.ratio > 0 for row in rows)
