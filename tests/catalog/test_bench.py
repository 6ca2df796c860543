"""The bench measures every promise."""

from __future__ import annotations

import json

from gloveport.bench import catalog
from gloveport.bench.report import show


def test_every_bar_has_a_row_of_the_common_shape(monkeypatch, capsys):
    monkeypatch.setattr(catalog, "SIZE", 50)
    rows = catalog.measure(quick=True)
    assert {row.name: row.bar for row in rows} == dict(catalog.BARS)
    assert show(rows, as_json=True, check=False) == 0
    shown = json.loads(capsys.readouterr().out)["rows"]
    assert {row["name"] for row in shown} == set(catalog.BARS)
    assert all(row["ratio"] > 0 and row["ok"] in (True, False) for row in shown)
    assert next(row for row in rows if row.name == "prompt").ok


def test_the_catalog_is_the_same_every_time():
    assert [tool.name for tool in catalog.office(30)] == [tool.name for tool in catalog.office(30)]
    assert len({tool.name for tool in catalog.office(catalog.SIZE)}) == 3000
