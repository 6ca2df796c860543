"""The Language Server Protocol 3.17, as far as diagnostics need it, over one process's standard streams."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gloveport.engines.toolbox.connection import Child, write

__all__ = (
    "Diagnostic",
    "Hover",
    "Position",
    "Related",
    "Report",
    "ServerDied",
    "ServerTimeout",
    "ServerUnwanted",
    "Wire",
)

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of the largest message that is read."""
MAX_HEADER: Final = 4096
_CHUNK: Final = 1 << 18
_STEP: Final = 100
"""Milliseconds between two looks at whether to go on."""


class ServerDied(Exception):
    """The process ended, or sent what no server sends."""


class ServerTimeout(Exception):
    """No answer in time."""


class ServerUnwanted(Exception):
    """The caller was told to stop before there was an answer."""


class Position(msgspec.Struct):
    line: int
    character: int
    """In UTF-16 units."""


class Range(msgspec.Struct):
    start: Position
    end: Position


class Location(msgspec.Struct):
    uri: str


class Related(msgspec.Struct):
    location: Location
    message: str


class Diagnostic(msgspec.Struct):
    range: Range
    message: str
    code: int | str = 0
    severity: int = 1
    related: list[Related] = msgspec.field(default_factory=list[Related], name="relatedInformation")


class Report(msgspec.Struct):
    """What `textDocument/diagnostic` gives."""

    items: list[Diagnostic] = []


class _Markup(msgspec.Struct):
    value: str = ""


class Hover(msgspec.Struct):
    """What `textDocument/hover` gives, in its one form that this server sends (seen with 7.0.2)."""

    contents: _Markup


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


_messages = msgspec.json.Decoder(_Message)


class Wire:
    """Requests to one server, strictly one at a time: the caller holds a lock."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.owner_pid = os.getpid()
        self._buffer = bytearray()
        self._next_id = 0
        self.unwanted: Callable[[], bool] = _never
        """Asked now and then whether to stop."""
        self._poll = select.poll()
        self._poll.register(child.read_fd, select.POLLIN)
        for fd in {child.read_fd, child.write_fd}:
            os.set_blocking(fd, False)

    def request(self, method: str, params: Any, deadline: float) -> msgspec.Raw:
        """Ask and wait for the result. Raises `ServerDied`, `ServerTimeout`, `ServerUnwanted`; the process is of no use then."""
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}, deadline)
        while True:
            self._check(deadline)
            message = self._receive(deadline)
            if message.method is not None:
                if message.id is not None:  # it wants something registered or configured: nothing is
                    self._send({"jsonrpc": "2.0", "id": message.id, "result": None}, deadline)
            elif message.id == self._next_id:
                if bytes(message.error) != b"null":
                    raise ServerDied(bytes(message.error)[:500].decode(errors="replace"))
                return message.result

    def notify(self, method: str, params: Any, deadline: float) -> None:
        """Say something that has no answer."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params}, deadline)

    def close(self) -> None:
        """End the process, unless this is a fork of the host: then only let go of it."""
        if os.getpid() == self.owner_pid:
            self.child.close()
        else:
            self.child.forget()

    # ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, message: dict[str, Any], deadline: float) -> None:
        body = msgspec.json.encode(message)
        view = memoryview(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while view:
            self._check(deadline)
            try:
                view = view[write(self.child.write_fd, view) :]
            except BlockingIOError:
                self._make_room(deadline)
            except OSError as error:
                raise ServerDied from error

    def _make_room(self, deadline: float) -> None:
        """Wait until it reads on; meanwhile take what it says, or both sides would wait for each other."""
        both = select.poll()
        both.register(self.child.write_fd, select.POLLOUT)
        both.register(self.child.read_fd, select.POLLIN)
        ready = self._wait(both, deadline)
        if ready.get(self.child.read_fd, 0):  # also when it hung up, which is what `_read` finds out
            self._read()

    def _wait(self, poll: select.poll, deadline: float) -> dict[int, int]:
        while True:
            self._check(deadline)
            ready = poll.poll(min(_STEP, _milliseconds(deadline)))
            if ready:
                return dict(ready)

    def _check(self, deadline: float) -> None:
        """Raises when the time is over, whatever there still is to read or room to write."""
        if time.monotonic() >= deadline:
            raise ServerTimeout
        if self.unwanted():
            raise ServerUnwanted

    def _receive(self, deadline: float) -> _Message:
        while (body := self._take()) is None:
            self._wait(self._poll, deadline)
            self._read()
        try:
            return _messages.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ServerDied("it sent what is no message") from error

    def _read(self) -> None:
        try:
            chunk = os.read(self.child.read_fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise ServerDied from error
        if not chunk:
            raise ServerDied("it ended")
        self._buffer += chunk
        if len(self._buffer) > MAX_MESSAGE + MAX_HEADER + _CHUNK:
            raise ServerDied("it sent more than any server sends")

    def _take(self) -> bytes | None:
        """One message's body, if it is there."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEADER:
                raise ServerDied("it sent a header without an end")
            return None
        length = _length(bytes(self._buffer[:end]))
        start = end + 4
        if len(self._buffer) < start + length:
            return None
        body = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        return body


def _length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        digits = value.strip()
        if name.strip().lower() == b"content-length" and digits.isdigit() and len(digits) < 10:
            length = int(digits)
            if length <= MAX_MESSAGE:
                return length
    raise ServerDied("it sent a header without a usable length")


def _never() -> bool:
    return False


def _milliseconds(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000) + 1)
