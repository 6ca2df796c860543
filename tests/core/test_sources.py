"""The codes that a session keeps for a type checker: the latest, in bounded memory, and whether they are all."""

from __future__ import annotations

from gloveport.core.sources import Sources


def test_all_of_them_while_they_are_few():
    sources = Sources()
    for number in range(100):
        sources.add(f"const x{number} = 1")
    assert (len(sources.texts), sources.complete) == (100, True)
    sources.add("const last = 1")
    assert (len(sources.texts), sources.complete) == (100, False)
    assert sources.texts[-1] == "const last = 1"


def test_large_ones_push_the_others_out():
    sources = Sources()
    sources.add("a" * 60_000)
    sources.add("b" * 5_000)
    assert (len(sources.texts), sources.complete) == (2, True)
    sources.add("c" * 5_000)
    assert ([text[0] for text in sources.texts], sources.complete) == (["b", "c"], False)
    sources.add("d" * 70_000)
    assert sources.texts == []


def test_stored_and_restored():
    sources, restored = Sources(), Sources()
    sources.add("const a = 1")
    restored.restore(sources.saved(), 1)
    assert (restored.texts, restored.complete) == (["const a = 1"], True)
    restored.restore(None, 0)
    assert (restored.texts, restored.complete) == ([], True)
    restored.restore(None, 3)
    assert (restored.texts, restored.complete) == ([], False)
    restored.add("const b = 1")
    again = Sources()
    again.restore(restored.saved(), 4)
    assert (again.texts, again.complete) == (["const b = 1"], False)
