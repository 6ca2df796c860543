"""Frames of the agent and of the supervisor of a machine, without any I/O. `native/box/PROTOCOL.md` is the contract.

What comes from a machine is hostile: a compromised process 1 may send anything. Sizes are checked before anything is allocated for
them, fields are decoded to the type that is asked for, and everything that is wrong is one `ProtocolViolation`.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final

from ..errors import ProtocolViolation

__all__ = ("CHUNK", "MAX_FRAME", "Ask", "Fields", "FrameReader", "Tag", "Tell", "encode", "fields", "output")

MAX_FRAME: Final = 1024 * 1024 + 64
"""Bytes after the length: whoever announces more is cut off."""
CHUNK: Final = 256 * 1024
"""Of the data that we send: large enough for speed, small enough for the buffers of a socket."""
_HEADER: Final = struct.Struct("<IB")
_FIELD: Final = struct.Struct("<BI")
_INTEGER: Final = struct.Struct("<q")
_OUTPUT: Final = struct.Struct("<BQ")
_MAX_FIELDS: Final = 4096


class Ask(enum.IntEnum):
    """Kinds of frames that we send: below 0x40 to the agent, the rest to the supervisor."""

    EXEC = 0x01
    ATTACH = 0x02
    INPUT = 0x03
    SIGNAL = 0x04
    RESIZE = 0x05
    LIST = 0x06
    FORGET = 0x07
    ACK = 0x08
    READ = 0x10
    WRITE = 0x11
    STAT = 0x12
    LISTDIR = 0x13
    MKDIR = 0x14
    REMOVE = 0x15
    MOVE = 0x16
    CHMOD = 0x17
    GLOB = 0x18
    WATCH = 0x19
    REALPATH = 0x1A
    TAR_OUT = 0x1B
    TAR_IN = 0x1C
    COPY = 0x1E
    SYMLINK = 0x1F
    HELLO = 0x20
    STATS = 0x21
    QUIESCE = 0x22
    """To the agent below a driver: nothing is left that leads out of the machine, until a file says so."""
    RESUMED = 0x23
    RESEED = 0x24
    DIAL = 0x25
    END = 0x2E
    DATA = 0x2F
    STATUS = 0x40
    FREEZE = 0x41
    THAW = 0x42
    KILL = 0x43
    TIMERS = 0x44
    SNAPSHOT_BEGIN = 0x45
    SNAPSHOT_END = 0x46
    EVENTS = 0x47
    CTL_STATS = 0x48
    RELAYER = 0x49


class Tell(enum.IntEnum):
    """Kinds of frames that come back."""

    OK = 0x80
    ERROR = 0x81
    DATA = 0x82
    ENTRY = 0x83
    STARTED = 0x84
    OUTPUT = 0x85
    EXIT = 0x86
    EVENT = 0x87
    PROCESS = 0x88
    END = 0x8E


class Tag(enum.IntEnum):
    """Names of fields."""

    ARGV = 1
    SHELL = 2
    CWD = 3
    ENV = 4
    USER = 5
    STDIN = 6
    PTY = 7
    ROWS = 8
    COLS = 9
    TIMEOUT_MS = 10
    KEEP_BYTES = 11
    DETACH = 12
    FOLLOW = 13
    RLIMIT = 14
    LABEL = 15
    OUTPUT_LIMIT = 16
    ID = 20
    OUT_OFFSET = 21
    ERR_OFFSET = 22
    DATA = 23
    EOF = 24
    SIGNO = 25
    SCOPE = 26
    PATH = 30
    OFFSET = 31
    LENGTH = 32
    MODE = 33
    APPEND = 34
    ATOMIC = 35
    PARENTS = 36
    FOLLOW_LINKS = 37
    DEPTH = 38
    RECURSIVE = 39
    PROTECT = 40
    TO = 41
    REPLACE = 42
    PATTERN = 43
    PORT = 44
    VERSION = 50
    PID = 51
    ERRNO = 60
    MESSAGE = 61
    CODE = 62
    NAME = 70
    TYPE = 71
    SIZE = 72
    MTIME_NS = 73
    UID = 74
    GID = 75
    TARGET = 76
    EXIT_CODE = 80
    SIGNAL = 81
    TIMED_OUT = 82
    LIMIT = 83
    OUT_TOTAL = 84
    ERR_TOTAL = 85
    OUT_SKIPPED = 86
    ERR_SKIPPED = 87
    KIND = 88
    STATE = 89
    REASON = 90
    MS = 91
    RESTARTS = 95
    PAUSE_AFTER_MS = 100
    IDLE_MS = 101
    DELETE_AFTER_MS = 102
    WAKE = 103
    MEMORY = 110
    PIDS = 111
    CPU_MS = 112
    DISK = 113
    FROZEN_MS = 114
    LOWER = 115
    UPPER = 116


_FIELD_VALUE = bytes | str | int


def fields(*pairs: tuple[int, _FIELD_VALUE | None]) -> bytes:
    """The body of a frame. A field whose value is `None` is left out. Texts may hold surrogate escapes, and no NUL."""
    body = bytearray()
    for tag, value in pairs:
        if value is None:
            continue
        if isinstance(value, int):
            data = _INTEGER.pack(value)
        elif isinstance(value, str):
            data = value.encode("utf-8", "surrogateescape")
            if b"\0" in data:
                raise ValueError(f"a text for a machine holds a NUL character: {value!r}")
        else:
            data = value
        body += _FIELD.pack(tag, len(data))
        body += data
    return bytes(body)


def encode(kind: int, body: bytes = b"") -> bytes:
    """One frame. Raises `ValueError` when it would be too large for the other side."""
    if len(body) + 1 > MAX_FRAME:
        raise ValueError(
            f"a request of {len(body)} bytes is over the limit of {MAX_FRAME - 1}: write large data to a file"
        )
    return _HEADER.pack(len(body) + 1, kind) + body


class FrameReader:
    """Turns any chunking of a byte stream into frames: `feed`, then `next` until it gives `None`."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max = max_frame
        self._buffer = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> tuple[Tell, bytes] | None:
        """The next whole frame. Raises `ProtocolViolation` as soon as a header is out of bounds."""
        start = self._start
        if len(self._buffer) - start < 5:
            return None
        length, kind = _HEADER.unpack_from(self._buffer, start)
        if not 1 <= length <= self._max:
            raise ProtocolViolation(f"a machine announced a frame of {length} bytes; the limit is {self._max}")
        if len(self._buffer) - start < 4 + length:
            return None
        try:
            known = Tell(kind)
        except ValueError:
            raise ProtocolViolation(f"a machine sent a frame of the unknown kind {kind:#x}") from None
        self._start = start + 4 + length
        return known, bytes(memoryview(self._buffer)[start + 5 : self._start])

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._buffer) - self._start


def output(body: bytes) -> tuple[int, int, bytes]:
    """Stream (1 or 2), offset and bytes of an `OUTPUT` frame."""
    if len(body) < _OUTPUT.size:
        raise ProtocolViolation("a machine sent output without a head")
    stream, offset = _OUTPUT.unpack_from(body)
    if stream not in (1, 2) or offset > 2**62:
        raise ProtocolViolation("a machine sent output of no known stream")
    return stream, offset, body[_OUTPUT.size :]


class Fields:
    """The fields of one frame. A field that is asked for and is not there, or is of another type, is a `ProtocolViolation`."""

    def __init__(self, body: bytes) -> None:
        self._values: dict[int, bytes] = {}
        self._repeated: dict[int, list[bytes]] = {}
        for tag, value in self._split(body):
            self._values[tag] = value
            self._repeated.setdefault(tag, []).append(value)

    @staticmethod
    def _split(body: bytes) -> Iterator[tuple[int, bytes]]:
        at = 0
        for _ in range(_MAX_FIELDS):
            if at == len(body):
                return
            if len(body) - at < _FIELD.size:
                break
            tag, length = _FIELD.unpack_from(body, at)
            at += _FIELD.size
            if length > len(body) - at:
                break
            yield tag, body[at : at + length]
            at += length
        raise ProtocolViolation("a machine sent fields that are cut off, or too many of them")

    def integer(self, tag: int, default: int | None = None) -> int:
        """A whole number."""
        value = self._values.get(tag)
        if value is None:
            if default is None:
                raise ProtocolViolation(f"a machine left out the field {tag}")
            return default
        if len(value) != _INTEGER.size:
            raise ProtocolViolation(f"the field {tag} of a machine is no number")
        return _INTEGER.unpack(value)[0]

    def text(self, tag: int, default: str | None = None) -> str:
        """A text; bytes that are not UTF-8 become surrogate escapes, as in file names elsewhere in Python."""
        value = self._values.get(tag)
        if value is None:
            if default is None:
                raise ProtocolViolation(f"a machine left out the field {tag}")
            return default
        return value.decode("utf-8", "surrogateescape")

    def texts(self, tag: int) -> tuple[str, ...]:
        """Every one of a repeated field."""
        return tuple(value.decode("utf-8", "surrogateescape") for value in self._repeated.get(tag, ()))

    def has(self, tag: int) -> bool:
        """Whether it was sent."""
        return tag in self._values
