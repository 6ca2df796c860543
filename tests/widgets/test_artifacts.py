"""Widgets in the application's hands."""

from __future__ import annotations

import pytest

from gloveport.host.widgets import Artifacts, Widget


def widget(name, size=100):
    return Widget(name, "x" * size, "Title", size)


def test_they_are_kept_by_id_within_bounds():
    kept = Artifacts(max_count=3, max_bytes=1000)
    for name in "abcd":
        kept.put(widget(name))
    assert [w.artifact_id for w in kept] == ["b", "c", "d"]
    kept.put(widget("e", 800))
    assert [w.artifact_id for w in kept] == ["c", "d", "e"] or [w.artifact_id for w in kept] == ["d", "e"]
    assert sum(w.bytes for w in kept) <= 1000
    kept.put(widget("f", 1001))
    assert "f" not in kept
    assert len(kept) > 0


def test_the_same_one_again_is_the_newest_and_counted_once():
    kept = Artifacts(max_count=2, max_bytes=250)
    for name in ("a", "b", "a", "c"):
        kept.put(widget(name))
    assert [w.artifact_id for w in kept] == ["a", "c"]


def test_saving(tmp_path):
    kept = Artifacts()
    kept.put(widget("a"))
    assert kept.save("a", tmp_path / "a.html").read_text() == "x" * 100
    assert kept.get("b") is None
    with pytest.raises(KeyError, match="'b'"):
        kept.save("b", tmp_path / "b.html")
    for options in ({"max_count": 0}, {"max_bytes": 0}):
        with pytest.raises(ValueError):
            Artifacts(**options)
