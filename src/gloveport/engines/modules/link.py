"""Talking to a worker of modules: frames of JSON, in both directions. Everything that comes from it is hostile."""

from __future__ import annotations

import socket
from typing import Annotated, Final, Literal

import anyio
import anyio.lowlevel
import msgspec

from ...errors import ProtocolViolation
from ...wire.frames import FrameDecoder, encode_frame
from ..deno.worker import DenoWorker

__all__ = (
    "ANSWER",
    "CALL",
    "CLOSE",
    "DONE",
    "LINE",
    "PART",
    "RUN",
    "TAIL",
    "Call",
    "Done",
    "End",
    "ModuleLink",
    "Run",
    "Thrown",
)

RUN: Final = 0x52
ANSWER: Final = 0x41
CLOSE: Final = 0x5A
LINE: Final = 0x6F
TAIL: Final = 0x74
CALL: Final = 0x63
PART: Final = 0x70
DONE: Final = 0x64

_CHUNK: Final = 1 << 17
_ENVELOPE: Final = 1 << 18
"""Bytes of a frame beside the value in it: what was thrown, escaped, and the rest."""
_BURST: Final = 256
"""Frames that are given away at most before others of the event loop have their turn."""

# What the types of JSON admit is more than the protocol does: integers of any length, which nothing downstream expects.
_Id = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Place = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class Run(msgspec.Struct, kw_only=True):
    """One run, as a worker gets it."""

    number: int
    kind: str
    code: str
    head: str
    inputs: msgspec.Raw | None
    tools: list[str] | None
    limit: int
    """Bytes of the value, as JSON."""
    output: int
    """Bytes of each stream that are sent, and again of its end."""
    resolve: dict[str, str]
    packages: bool


class Thrown(msgspec.Struct):
    """Why there is no value."""

    kind: str
    name: str
    message: str
    frames: list[tuple[str, str, _Place, _Place]]
    """Function, module, line, column; innermost first."""
    specifier: str | None = None


class Done(msgspec.Struct):
    """The end of a run; the value follows it in its frame."""

    ok: bool
    open: _Count
    """Calls of tools that were not answered."""
    parts: _Count
    """How many of the value came before, each in a frame of its own; what follows is the last one then. All are arrays, of which the value
    consists. Without a value they mean nothing."""
    error: Thrown | None = None


class Call(msgspec.Struct):
    """A call of a tool."""

    id: _Id
    name: str
    args: msgspec.Raw


class End(msgspec.Struct):
    """The end of a stream that was longer than its limit; its text follows it in its frame."""

    s: Literal[1, 2]
    lines: _Count
    """Missing before it."""
    bytes: _Count


class ModuleLink:
    """The line to one worker. Used by one task at a time."""

    def __init__(self, worker: DenoWorker) -> None:
        self.worker = worker
        self._sock: socket.socket = worker.sock
        self._sock.setblocking(False)
        self._decoder = FrameDecoder()
        self._frames = 0

    def expect(self, limit: int) -> None:
        """The largest frame that may come: a value of `limit` bytes."""
        self._decoder.limit(limit + _ENVELOPE)

    async def send(self, kind: int, body: bytes) -> None:
        """Sends a frame. Raises `OSError` when the worker is gone. Cancelled half-way, the worker is of no more use."""
        view = memoryview(encode_frame(kind, body))
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._sock)

    async def receive(self) -> tuple[int, bytes] | None:
        """The next frame; `None` when the worker is gone. Raises `ProtocolViolation`."""
        waited = False
        while (frame := self._decoder.next()) is None:
            try:
                data = self._sock.recv(_CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._sock)
                waited = True
                continue
            except OSError:
                return None
            if not data:
                return None
            self._decoder.feed(data)
            if not waited:  # who always has something to say must not hold up everybody else, nor its own timeout
                await anyio.lowlevel.checkpoint()
            waited = False
        self._frames += 1
        if self._frames % _BURST == 0:
            await anyio.lowlevel.checkpoint()
        return frame

    def idle(self) -> None:
        """Nothing may have come after the end of a run. Raises `ProtocolViolation`."""
        if self._decoder.pending:
            raise ProtocolViolation("a worker said more than it was asked")
