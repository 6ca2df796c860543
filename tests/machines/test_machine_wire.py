"""What comes from a machine is hostile."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import (
    CommandNotFoundError,
    FileNotFoundInSandboxError,
    GloveportError,
    LimitExceededError,
    ProtocolViolation,
    SandboxPausedError,
)
from gloveport.machines.exec import ExecRequest, Follower, listing
from gloveport.machines.filing import entries, receive, stat
from gloveport.machines.steps import RECEIVE, Disconnected, Frames, failure
from gloveport.machines.wire import MAX_FRAME, Ask, Fields, FrameReader, Tag, Tell, encode, fields, output


def feed(steps, data, size=None):
    """Drive a conversation with these bytes as all that ever comes."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)] if size else [data]
    pieces.append(b"")
    answer = None
    given = []
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as stop:
            return stop.value, given
        answer = None
        if step is RECEIVE:
            answer = pieces.pop(0) if pieces else b""
        elif not isinstance(step, bytes):
            given.append(step)
            if type(step).__name__ == "Reconnect":
                raise Disconnected(began=True)


@given(st.lists(st.tuples(st.integers(0, 255), st.one_of(st.binary(max_size=50), st.integers(-(2**63), 2**63 - 1)))))
def test_fields_come_back(pairs):
    told = Fields(fields(*pairs))
    for tag, value in dict(pairs).items():
        if isinstance(value, int):
            assert told.integer(tag) == value
        else:
            assert told.text(tag).encode("utf-8", "surrogateescape") == value


@given(st.lists(st.tuples(st.sampled_from(list(Tell)), st.binary(max_size=300)), max_size=8), st.integers(1, 64))
def test_chunking_does_not_matter(frames, size):
    data = b"".join(encode(kind, body) for kind, body in frames)
    reader, got = FrameReader(), []
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        while (frame := reader.next()) is not None:
            got.append(frame)
    assert got == frames
    assert reader.pending == 0


def test_a_large_frame_is_refused_by_its_header():
    reader = FrameReader()
    reader.feed(struct.pack("<IB", MAX_FRAME + 1, Tell.DATA))
    with pytest.raises(ProtocolViolation, match="announced"):
        reader.next()
    reader = FrameReader()
    reader.feed(struct.pack("<IB", MAX_FRAME, Tell.DATA))
    assert reader.next() is None  # the control: it waits for the rest
    reader = FrameReader()
    reader.feed(struct.pack("<IB", 0, Tell.DATA))
    with pytest.raises(ProtocolViolation):
        reader.next()


CONVERSATIONS = {
    "run": lambda: Follower(limit=65536).run(ExecRequest(shell="true")),
    "attach": lambda: Follower(limit=65536).attach(1),
    "list": listing,
    "stat": lambda: stat("/x", follow=True, user=None),
    "entries": lambda: entries(Ask.LISTDIR, "/x"),
    "read": lambda: receive(Ask.READ, "/x"),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@given(data=st.binary(max_size=400), size=st.integers(1, 64))
def test_noise_is_one_kind_of_error(name, data, size):
    try:
        feed(CONVERSATIONS[name](), data, size)
    except (GloveportError, Disconnected):
        pass


@pytest.mark.parametrize("name", CONVERSATIONS)
@given(
    frames=st.lists(
        st.tuples(
            st.sampled_from(list(Tell)),
            st.lists(
                st.tuples(
                    st.sampled_from(list(Tag)),
                    st.one_of(
                        st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20), st.sampled_from(["f", "d", "l"])
                    ),
                ),
                max_size=6,
            ),
        ),
        max_size=6,
    )
)
def test_well_formed_nonsense_is_one_kind_of_error(name, frames):
    data = b"".join(encode(kind, fields(*pairs)) for kind, pairs in frames)
    try:
        feed(CONVERSATIONS[name](), data)
    except (GloveportError, Disconnected):
        pass


def test_output_needs_a_head_and_a_known_stream():
    assert output(struct.pack("<BQ", 2, 7) + b"x") == (2, 7, b"x")
    for body in (b"", b"\1\0", struct.pack("<BQ", 3, 0), struct.pack("<BQ", 1, 2**63)):
        with pytest.raises(ProtocolViolation):
            output(body)


def test_an_error_is_known_by_numbers_and_codes():
    def told(number, code="", message="/etc/shadow: paused no_process"):
        return fields((Tag.ERRNO, number), (Tag.MESSAGE, message), (Tag.CODE, code))

    assert type(failure(told(2), "/x")) is FileNotFoundInSandboxError
    assert type(failure(told(28), "/x")) is LimitExceededError
    assert type(failure(told(16, "paused"))) is SandboxPausedError
    assert type(failure(told(3, "no_process"))) is CommandNotFoundError
    assert "\x1b" not in str(failure(told(5, message="\x1b[2J" * 1000), "/x"))
    assert len(str(failure(told(5, message="y" * 100000), "/x"))) < 1000


def test_a_request_that_is_too_large_is_refused_here():
    with pytest.raises(ValueError, match="write large data to a file"):
        ExecRequest(shell="x" * MAX_FRAME).encode()
    with pytest.raises(ValueError, match="NUL"):
        ExecRequest(shell="a\0b").encode()


def test_a_stream_that_counts_backwards_is_refused():
    exit_frame = encode(Tell.EXIT, fields((Tag.ID, 1), (Tag.EXIT_CODE, 0), (Tag.OUT_TOTAL, 1), (Tag.ERR_TOTAL, 0)))
    data = (
        encode(Tell.STARTED, fields((Tag.ID, 1), (Tag.PID, 2)))
        + encode(Tell.OUTPUT, struct.pack("<BQ", 1, 0) + b"hello")
        + exit_frame
    )
    with pytest.raises(ProtocolViolation):
        feed(CONVERSATIONS["run"](), data)


def test_frames_that_end_early_say_whether_anything_came():
    frames = Frames()
    with pytest.raises(Disconnected) as caught:
        feed(frames.next(), b"")
    assert not caught.value.began
    frames = Frames()
    with pytest.raises(Disconnected) as caught:
        feed(frames.next(), b"\1")
    assert caught.value.began
