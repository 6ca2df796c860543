"""What a language server that was taken over can say in a diagnostic, which no compiler says."""

from __future__ import annotations

import time

import msgspec
import pytest

from gloveport.engines.checker.documents import Question, written
from gloveport.engines.checker.lsp import Report
from gloveport.engines.checker.problems import MAX_MESSAGE, found
from gloveport.engines.toolbox.compiled import Outline


def told(message="x", *, code=2300, character=0, source="const b = 2", related=()):
    text = written(Question(source), [Outline("const a: number = 1", True)], Outline(source, False))
    place = {"line": text.first_line, "character": 0}
    diagnostic = {
        "range": {"start": {**place, "character": character}, "end": place},
        "message": message,
        "code": code,
        "severity": 1,
        "relatedInformation": [{"location": {"uri": "x"}, "message": one} for one in related],
    }
    report = msgspec.json.decode(msgspec.json.encode({"items": [diagnostic]}), type=Report)
    return found(report.items, text, lambda at: "", most=20)


def seconds(length):
    best = 60.0
    for _ in range(5):
        began = time.perf_counter()
        told("does not exist on type '" + "<" * length, code=2339)
        best = min(best, time.perf_counter() - began)
    return best


def test_the_time_does_not_grow_with_a_message_faster_than_the_message():
    assert seconds(16_000) < 20 * seconds(2_000)


@pytest.mark.parametrize("code", [10**30, 10**18, 100_000, -5])
def test_a_code_that_no_compiler_has_is_not_told(code):
    # msgspec writes no integers that large
    text = written(Question("f()"), [], Outline("f()", True))
    raw = b'{"items":[{"range":{"start":{"line":1,"character":0},"end":{"line":1,"character":0}},"message":"m","code":%d}]}'
    items = msgspec.json.decode(raw % code, type=Report).items
    assert found(items, text, lambda at: "", most=20) == []
    items = msgspec.json.decode(raw % 99_999, type=Report).items
    assert [problem.code for problem in found(items, text, lambda at: "", most=20)] == ["TS99999"]


@pytest.mark.parametrize(
    ("source", "character", "column"),
    [
        ("const b = 2", 2**62, 12),
        ("const b = 2", -5, 1),
        ("const b = 2", 4, 5),
        ("const é😀 = 2", 2**62, 13),
        ("const é😀 = 2", -5, 1),
        ("const é😀 = 2", 9, 9),
    ],
)
def test_a_column_is_one_of_its_line(source, character, column):
    assert [problem.column for problem in told(source=source, character=character)] == [column]


def test_what_is_told_is_bounded():
    (problem,) = told("m" * 100_000, related=["Did you mean 'x'? " + "y" * 100_000] * 1000)
    assert len(problem.message) == MAX_MESSAGE
