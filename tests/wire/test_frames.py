"""Frames and messages: any chunking, any garbage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import ProtocolViolation
from gloveport.wire import frames
from gloveport.wire.messages import Call, Idle, Log, decode_output, decode_reply


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=50))), st.lists(st.integers(1, 40)))
def test_any_chunking_gives_the_same_frames(parts, cuts):
    stream = b"".join(frames.encode_frame(kind, body) for kind, body in parts)
    decoder = frames.FrameDecoder()
    found = []
    offset = 0
    for size in [*cuts, len(stream)]:
        decoder.feed(stream[offset : offset + size])
        offset += size
        while (frame := decoder.next()) is not None:
            found.append(frame)
    assert found == parts
    assert decoder.pending == 0


@pytest.mark.parametrize("length", [0, 101, 2**32 - 1])
def test_a_frame_out_of_bounds_is_refused_by_its_header(length):
    decoder = frames.FrameDecoder(max_frame=100)
    decoder.feed(struct.pack("<IB", length, 1))
    with pytest.raises(ProtocolViolation):
        decoder.next()


def test_a_frame_at_the_bound_passes():
    decoder = frames.FrameDecoder(max_frame=100)
    decoder.feed(struct.pack("<IB", 100, 1) + b"x" * 99)
    assert decoder.next() == (1, b"x" * 99)


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_violation_or_nothing(data):
    for decode in (decode_output, decode_reply):
        try:
            decode(data)
        except ProtocolViolation:
            pass


def output(*bodies: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(body)) + body for body in bodies)


def test_the_messages_of_the_protocol():
    call, log, idle = decode_output(
        output(
            b'{"t":"call","id":1,"n":"x","a":[1,2],"f":0}',
            b'{"t":"log","f":2,"s":1,"m":"\\ud83d"}',
            b'{"t":"idle","f":0,"calls":1,"timer":null,"now":5.5}',
        )
    )
    assert isinstance(call, Call) and bytes(call.a) == b"[1,2]"
    assert isinstance(log, Log) and log.m == "\ud83d"
    assert idle == Idle(calls=1, timer=None, now=5.5)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"t":"call"}',
        b'{"t":"call","id":"1","n":"x","a":[]}',
        b'{"t":"boot"}',
        b'{"t":"log","f":0,"s":1,"m":"\\ud83d"}',
        b"[" * 100_000,
        b'{"t":"done","v":' + b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_not_of_the_protocol_is_refused(body):
    with pytest.raises(ProtocolViolation):
        decode_output(output(body))
