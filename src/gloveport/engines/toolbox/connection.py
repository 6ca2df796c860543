"""One toolbox process, and the frames that are exchanged with it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

MAX_REPLY = 32 * 1024 * 1024
"""Bytes of the largest reply that is read."""
REPLY_BASE = 1024 * 1024
REPLY_PER_CHARACTER = 32
"""A reply may have that many bytes for each character of its source, and `REPLY_BASE` more. The largest that were seen had 21
(of many tiny enums), and 29 when half a megabyte (of decorators)."""
VALUES_BASE = 10_000
VALUES_PER_CHARACTER = 8
"""The same for what it has of lists, objects and commas: 3.4 were seen."""
PROTOCOL = 1
"""Must be what the toolbox bundle says of itself."""
SPIN_SECONDS = 0.0005
"""How long the event loop waits for a reply before it does other things: most compilations take a fifth of that."""

_HEADER = struct.Struct("<I")
_CHUNK = 1 << 18
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_COUNT = re.compile(rb"[0-9]{16}|[0-9][.eE]|[IN]")
"""In JSON without its strings: a number that is no line, column or id."""


class ToolboxDied(Exception):
    """The process ended, or sent what no toolbox sends."""


class ToolboxTimeout(Exception):
    """No reply in time."""


@dataclass(frozen=True, slots=True)
class Child:
    """A started process, which owns its descriptors."""

    pid: int
    read_fd: int
    write_fd: int
    """May be the same as `read_fd` (a socket)."""
    kill: Callable[[], None]
    """Ends the process at once."""
    close: Callable[[], None]
    """Ends it, waits for its end, closes the descriptors."""
    forget: Callable[[], None]
    """In a forked copy of the host: closes the descriptors only."""


class Connection:
    """Requests to one process, strictly one at a time: the caller holds a lock."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.owner_pid = os.getpid()
        self._buffer = bytearray()
        self._next_id = 1
        self._poll = select.poll()
        self._poll.register(child.read_fd, select.POLLIN)
        for fd in {child.read_fd, child.write_fd}:
            os.set_blocking(fd, False)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def request(self, op: str, source: str, timeout: float) -> dict[str, Any]:
        """Asks and waits. Raises `ToolboxDied`, `ToolboxTimeout`; the connection is unusable after either."""
        deadline = time.monotonic() + timeout
        request_id = self._send(op, source, deadline)
        most = _largest(source)
        while (body := self._take_frame(most)) is None:
            if time.monotonic() >= deadline or not self._poll.poll(_milliseconds(deadline)):
                raise ToolboxTimeout
            self._receive()
        return _decode(body, request_id, len(source))

    async def request_async(self, op: str, source: str, timeout: float) -> dict[str, Any]:
        """The same on an event loop, which is held up for `SPIN_SECONDS` at most (if the source fits into the pipe)."""
        deadline = time.monotonic() + timeout
        request_id = self._send(op, source, deadline)
        most = _largest(source)
        spin_end = time.monotonic() + SPIN_SECONDS
        while (body := self._take_frame(most)) is None:
            left = spin_end - time.monotonic()
            if left <= 0:
                break
            if self._wait_briefly(left):
                self._receive()
        if body is None:
            import anyio

            try:
                with anyio.fail_after(max(0.0, deadline - time.monotonic())):
                    body = await self._frame_async(most)
            except TimeoutError:
                raise ToolboxTimeout from None
        return _decode(body, request_id, len(source))

    def kill(self) -> None:
        """Ends the process at once."""
        self.child.kill()

    def close(self) -> None:
        """Ends the process, unless this is a fork of the host: then it only lets go of it."""
        if os.getpid() == self.owner_pid:
            self.child.close()
        else:
            self.child.forget()

    # ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, op: str, source: str, deadline: float) -> int:
        request_id = self._next_id
        self._next_id += 1
        # ASCII escapes carry lone surrogates, which UTF-8 cannot.
        body = json.dumps({"id": request_id, "op": op, "source": source}).encode("ascii")
        view = memoryview(_HEADER.pack(len(body)) + body)
        while view:
            try:
                view = view[write(self.child.write_fd, view) :]
            except BlockingIOError:
                writable = select.poll()
                writable.register(self.child.write_fd, select.POLLOUT)
                if not writable.poll(_milliseconds(deadline)):
                    raise ToolboxTimeout from None
            except OSError as error:
                raise ToolboxDied from error
        return request_id

    def _receive(self) -> None:
        """Reads what is there."""
        try:
            chunk = os.read(self.child.read_fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise ToolboxDied from error
        if not chunk:
            raise ToolboxDied
        self._buffer += chunk

    def _take_frame(self, most: int) -> bytes | None:
        if len(self._buffer) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > most:
            raise ToolboxDied
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:  # it never speaks unasked
            raise ToolboxDied
        body = bytes(self._buffer[_HEADER.size :])
        self._buffer.clear()
        return body

    def _wait_briefly(self, seconds: float) -> bool:
        fd = self.child.read_fd
        if fd < 1024:  # select() counts microseconds, poll() milliseconds
            return bool(select.select([fd], [], [], seconds)[0])
        return bool(self._poll.poll(1))

    async def _frame_async(self, most: int) -> bytes:
        import anyio

        while (body := self._take_frame(most)) is None:
            await anyio.wait_readable(self.child.read_fd)
            self._receive()
        return body


def _milliseconds(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000) + 1)


def _largest(source: str) -> int:
    """Bytes of the largest reply to a request."""
    return min(MAX_REPLY, REPLY_BASE + REPLY_PER_CHARACTER * len(source))


def _decode(body: bytes, request_id: int, characters: int) -> dict[str, Any]:
    _check_shape(body, characters)
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ToolboxDied from error
    if not isinstance(reply, dict):
        raise ToolboxDied
    fields = cast("dict[str, Any]", reply)
    if fields.get("id") != request_id:
        raise ToolboxDied
    return fields


def _check_shape(body: bytes, characters: int) -> None:
    """Lists of nothing take 25 times their bytes as objects, so what is to become objects is counted first."""
    rest = _STRING.sub(b"", body)
    values = rest.count(b"[") + rest.count(b"{") + rest.count(b",")
    if values > VALUES_BASE + VALUES_PER_CHARACTER * characters or _NO_COUNT.search(rest):
        raise ToolboxDied


def write(fd: int, data: memoryview) -> int:
    """`os.write` that only raises when nobody reads: the signal that comes with it ends a host that has SIGPIPE as programs of a
    command line do."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        return os.write(fd, data)
    except BrokenPipeError:
        signal.sigtimedwait({signal.SIGPIPE}, 0)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
