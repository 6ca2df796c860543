"""The bars of the pool's bench, and its rows on a small scale."""

from __future__ import annotations

from pathlib import Path

from gloveport.bench import pool

TEXT = (Path(__file__).parents[2] / "SPECIFICATION.md").read_text("utf-8")


def test_the_bars_are_the_promises_of_the_specification():
    assert f"median | {pool.BARS['wake'] * 1000:g} ms |" in TEXT
    assert f"divided among them) | {pool.BARS['memory per live session'] / 1e6:g} MB |" in TEXT
    assert f"of another one in them | {pool.BARS['lost or mixed up']:g} |" in TEXT


def test_it_measures_and_it_notices_what_is_lost(postgres, monkeypatch):
    monkeypatch.setattr(pool, "Size", lambda *_: real(12, 3, 4, 6))
    rows = {row.name: row for row in pool.measure(quick=True, isolation="inline", postgres=postgres)}
    assert len(rows) == 10
    for name, row in rows.items():
        if name.startswith("lost"):
            assert (row.ours, row.ok, row.bar) == (0, True, 0)
    monkeypatch.setattr(pool, "_VISIT", "return [me, 1, words[198]]")
    rows = {row.name: row for row in pool.measure(quick=True, isolation="inline", postgres=postgres)}
    assert {row.ok for name, row in rows.items() if name.startswith("lost")} == {False}


real = pool.Size
