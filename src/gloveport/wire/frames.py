"""Frames: u32 length, u8 kind, body. The length is checked before anything is allocated for it."""

from __future__ import annotations

import struct
from typing import Final

from ..errors import ProtocolViolation

__all__ = ("HEADER", "MAX_FRAME", "FrameDecoder", "encode_frame", "encode_parts")

MAX_FRAME: Final = 64 * 1024 * 1024
"""Bytes of one frame: the largest value or image that can cross. A worker that announces more is killed."""

HEADER: Final = struct.Struct("<IB")

CONFIGURE: Final = 0x43
STEP: Final = 0x53
BATCH: Final = 0x42
DUMP: Final = 0x44
LOAD: Final = 0x4C
RESET: Final = 0x5A
RETRACE: Final = 0x56
REPLY: Final = 0x72
PART: Final = 0x76
WAITS: Final = 0x77
IMAGE: Final = 0x69
REFUSED: Final = 0x21


def encode_frame(kind: int, body: bytes = b"") -> bytes:
    """One frame as bytes."""
    if len(body) >= MAX_FRAME:
        raise ProtocolViolation(f"a frame of {len(body)} bytes is over the limit of {MAX_FRAME}")
    return HEADER.pack(len(body) + 1, kind) + body


def encode_parts(kind: int, parts: list[bytes], *, wide_count: bool) -> bytes:
    """A frame whose body is a count and length-prefixed parts; the count is u32 (batch) or u8 (load)."""
    body = bytearray(struct.pack("<I" if wide_count else "<B", len(parts)))
    for part in parts:
        body += struct.pack("<I", len(part))
        body += part
    return encode_frame(kind, bytes(body))


class FrameDecoder:
    """Turns any chunking of a byte stream into frames.

    `feed` appends bytes; `next` gives the next whole frame as `(kind, body)` or `None`. A frame over `max_frame` bytes
    raises `ProtocolViolation` as soon as its header is seen.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max = max_frame
        self._buffer = bytearray()

    def limit(self, max_frame: int) -> None:
        """Another limit for the frames that come from now on."""
        self._max = max_frame

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """The next frame, if it is complete."""
        buffer = self._buffer
        if len(buffer) < 5:
            return None
        length, kind = HEADER.unpack_from(buffer)
        if not 1 <= length <= self._max:
            raise ProtocolViolation(f"a worker announced a frame of {length} bytes; the limit is {self._max}")
        end = 4 + length
        if len(buffer) < end:
            return None
        body = bytes(memoryview(buffer)[5:end])
        del buffer[:end]
        return kind, body

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._buffer)
