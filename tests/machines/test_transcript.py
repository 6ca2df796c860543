"""The output of a command within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import ProtocolViolation
from gloveport.machines.transcript import Stream


def fill(limit, data, size):
    stream = Stream(limit)
    told = "".join(stream.add(at, data[at : at + size]) for at in range(0, len(data), size))
    return stream, told + stream.finish(len(data))


@given(st.text(), st.integers(1, 9), st.integers(8, 64))
def test_what_is_told_piece_by_piece_is_the_text(text, size, limit):
    data = text.encode("utf-8", "replace")
    stream, told = fill(limit, data, size)
    assert told == data.decode()
    shown, lost = stream.text()
    assert (lost == 0) == (len(data) <= limit)
    if not lost:
        assert shown == data.decode()


@given(st.text(min_size=40), st.integers(1, 9))
def test_head_and_tail_are_whole_characters(text, size):
    data = text.encode("utf-8", "replace")
    stream, _ = fill(32, data, size)
    shown, lost = stream.text()
    head, _, tail = shown.partition(f"[truncated: {lost} bytes]\n")
    head = head.removesuffix("\n") if not text.startswith(head) else head
    assert "\ufffd" not in shown.replace("\ufffd", "") and text.startswith(head) and text.endswith(tail)
    # The line break before the mark may be the text's own, or one of the mark.
    parts = len(head.encode()) + len(tail.encode()) + lost
    assert parts == len(data) or (parts == len(data) + 1 and head.endswith("\n"))


def test_pieces_that_come_again_are_left_out():
    stream = Stream(100)
    assert stream.add(0, b"hello") == "hello"
    assert stream.add(0, b"hello w") == " w"
    assert stream.add(2, b"llo") == ""
    assert stream.finish(7) == ""
    assert stream.text() == ("hello w", 0)


def test_a_hole_is_counted():
    stream = Stream(100)
    stream.add(0, b"head\n")
    stream.add(1000, b"tail")
    stream.finish(1004)
    assert stream.text() == ("head\n[truncated: 995 bytes]\ntail", 995)
    short = Stream(100)
    short.add(0, b"x")
    short.finish(10)
    assert short.text() == ("x\n[truncated: 9 bytes]\n", 9)


def test_bytes_that_are_no_text():
    stream, told = fill(100, b"a\xf0b\n\x00\xe2\x82", 1)
    assert told == stream.text()[0] == "a\ufffdb\n\x00\ufffd"


def test_memory_is_bounded_by_the_limit():
    stream = Stream(1024)
    for at in range(0, 1 << 20, 4096):
        stream.add(at, b"y" * 4096)
    assert len(stream.raw()) <= 1024


def test_less_than_was_sent_is_refused():
    stream = Stream(100)
    stream.add(0, b"hello")
    with pytest.raises(ProtocolViolation):
        stream.finish(3)
