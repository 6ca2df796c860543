"""A session's line to its guest: through a worker process, or (`InlineLink`) straight into this process."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...core.commands import Dump, GuestCommand, LinkLost, Load, Replay, Step
from ...core.outcome import clean
from ...errors import ImageError, ProtocolViolation
from ...wire import frames
from ...wire.messages import GC_REQUEST, Reply, decode_reply
from .. import processors
from .apart import Apart

__all__ = ("InlineLink", "Link", "ProcessLink")

GRACE: Final = 0.3
"""Seconds between the interrupt flag and SIGKILL: a few native loops (a huge sort, a huge join) do not poll the flag."""
HOUSEKEEPING: Final = 30.0
"""Seconds for an image, either way."""
TAKING: Final = 10.0
"""Seconds for a worker to take a request, which it waits for: only one that does nothing else needs more."""
_PATIENCE: Final = 0.02
_RECEIVE_TIMEOUT: Final = struct.pack("@qq", 0, int(_PATIENCE * 1_000_000))
"""How long a blocking receive waits before it looks at the clock. Letting the kernel wait (SO_RCVTIMEO) instead of polling first
saves a system call on every step."""
_MOMENT_NS: Final = 200_000
_CHUNK: Final = 256 * 1024


class Link(Protocol):
    """Performs the commands that concern the guest. Each raises `LinkLost` when the guest is gone."""

    @property
    def pid(self) -> int | None: ...

    def perform(self, command: GuestCommand) -> Any: ...

    async def perform_async(self, command: GuestCommand) -> Any: ...

    def close(self) -> None: ...

    def abort(self) -> None:
        """From another thread, while a request is under way: make it end."""
        ...


class _Worker(Protocol):
    """What a link needs of a worker."""

    sock: socket.socket

    @property
    def pid(self) -> int: ...
    def interrupt(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


def _frame(command: GuestCommand) -> tuple[bytes, float]:
    if isinstance(command, Step):
        return frames.encode_frame(frames.STEP, command.request), command.limit
    if isinstance(command, Replay):
        return frames.encode_parts(frames.BATCH, list(command.requests), wide_count=True), command.limit
    if isinstance(command, Dump):
        return frames.encode_frame(frames.DUMP, command.reference or b""), HOUSEKEEPING
    if isinstance(command, Load):
        return frames.encode_parts(frames.LOAD, list(command.images), wide_count=False), HOUSEKEEPING
    raise TypeError("this engine has images: nothing is retraced")


def _only_looks(command: GuestCommand) -> bool:
    """Whether the guest is afterwards as it was before."""
    return isinstance(command, Dump) or (isinstance(command, Step) and command.request == GC_REQUEST)


def _result(command: GuestCommand, kind: int, body: bytes, wall_ns: int) -> Any:
    if kind == frames.REFUSED:
        text = clean(body[:500].decode("utf-8", "replace"))
        if isinstance(command, (Dump, Load)):
            raise ImageError(text)
        raise ProtocolViolation(f"a worker refused a request: {text}")
    if isinstance(command, Dump):
        if kind == frames.IMAGE:
            return body
    elif kind == frames.REPLY:
        reply = decode_reply(body, wall_ns)
        return None if isinstance(command, Load) else reply
    raise ProtocolViolation(f"a worker answered with the unexpected frame kind {kind}")


class ProcessLink:
    """One session in a worker process. Requests go one at a time; the session sees to that.

    `alone`: the process is this session's only.
    """

    def __init__(self, worker: _Worker, max_memory: int, *, alone: bool = True) -> None:
        self._worker = worker
        self._sock = worker.sock
        self._decoder = frames.FrameDecoder()
        self._waits: bytes | None = None
        self._unwatch: Callable[[], object] | None = None
        """Takes the socket off the event loop that waits for it."""
        self._owes = False
        """A reply will come, or has come, that nobody waits for any more."""
        self._unsent = memoryview(b"")
        """What is left to send of the request that it will answer."""
        self._in_parts = False
        """Whether an answer may be several frames."""
        self._prefix = frames.encode_frame(frames.CONFIGURE, struct.pack("<Q", max_memory))
        self._apart = Apart(worker.pid) if alone and processors.MANY else None
        self._heard = 0
        """When the last reply came."""
        self.closed = False

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return None if self.closed else self._worker.pid

    def close(self) -> None:
        """End the worker."""
        if not self.closed:
            self.closed = True
            self._owes = False
            self._let_go()
            self._worker.close()

    def _let_go(self) -> None:
        """Before the socket is closed: its number may be another's at once, whom the loop would take for it."""
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()

    def abort(self) -> None:
        """Kill the worker; the request under way sees the end of the stream."""
        self._worker.kill()

    # ── blocking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def perform(self, command: GuestCommand) -> Any:
        """One request and its reply, blocking this thread."""
        frame, limit = _frame(command)
        if self._owes:
            self._owes = False
            self._send_rest(self._unsent)
            self._receive(HOUSEKEEPING)
        began = time.monotonic_ns()
        kind, body = self._exchange(frame, limit)
        return _result(command, kind, body, time.monotonic_ns() - began)

    def _exchange(self, frame: bytes, limit: float) -> tuple[int, bytes]:
        frame = self._ready(frame)
        rest = memoryview(frame)[self._send_now(frame) :]
        if rest:
            self._send_rest(rest)
        return self._receive(limit)

    def _ready(self, frame: bytes) -> bytes:
        """The bytes to send. A worker never speaks unasked: what is there already is no answer."""
        try:
            early = self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except OSError as error:
            raise self._lost(error) from error
        else:
            if not early:
                raise self._lost(None)
            raise ProtocolViolation("a worker spoke before it was asked")
        if self._apart is not None:
            if time.monotonic_ns() - self._heard < _MOMENT_NS:
                self._apart.keep_off()
            else:
                self._apart.let_go()
        if self._prefix:
            frame, self._prefix = self._prefix + frame, b""
        return frame

    def _send_now(self, data: bytes | memoryview) -> int:
        """How much of it went out without waiting."""
        try:
            return self._sock.send(data, socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise self._lost(error) from error

    def _send_rest(self, rest: memoryview) -> None:
        self._unsent = memoryview(b"")
        deadline = time.monotonic() + TAKING
        poll = select.poll()
        poll.register(self._sock, select.POLLOUT)
        while rest:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._deaf()
            if poll.poll(left * 1000):
                rest = rest[self._send_now(rest) :]

    def _receive(self, limit: float) -> tuple[int, bytes]:
        frame = self._take_soon()
        if frame is not None:
            return frame
        self._wait_like(_RECEIVE_TIMEOUT)
        deadline = time.monotonic() + limit
        interrupted = False
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            if time.monotonic() < deadline:
                continue
            if interrupted:
                raise self._overdue()
            interrupted = True
            self._interrupt()
            deadline = time.monotonic() + GRACE

    def _take_soon(self) -> tuple[int, bytes] | None:
        """Look for the reply again and again for a moment: most come within 0.05 ms, and to sleep and be woken takes as long again.

        An event loop is held up no longer than that. Without a second processor the worker could not run meanwhile.
        """
        if not processors.MANY:
            return None
        end = time.monotonic_ns() + _MOMENT_NS
        while True:
            frame = self._take(socket.MSG_DONTWAIT)
            if frame is not None:
                return frame
            if time.monotonic_ns() > end:
                if self._apart is not None:
                    self._apart.let_go()
                return None
            os.sched_yield()  # the worker may be waiting for this very processor

    def _wait_like(self, timeout: bytes) -> None:
        if self._waits is not timeout:
            self._waits = timeout
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)

    def _take(self, flags: int = 0) -> tuple[int, bytes] | None:
        """What has come, once, and the frame that it completes."""
        try:
            data = self._sock.recv(_CHUNK, flags)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost(None)
        self._decoder.feed(data)
        frame = self._decoder.next()
        if frame is not None:
            self._heard = time.monotonic_ns()
            if self._decoder.pending and not self._in_parts:
                raise ProtocolViolation("a worker said more than it was asked")
        return frame

    # ── on an event loop ─────────────────────────────────────────────────────────────────────────────────────────────

    async def perform_async(self, command: GuestCommand) -> Any:
        """The same on the running event loop. It is registered there only while it waits, so any loop may be the next.

        When it is cancelled while the guest is only looked at, the session goes on with the same guest; else the worker ends.
        """
        frame, limit = _frame(command)
        if self._owes:
            await self._settle_async()
        began = time.monotonic_ns()
        try:
            kind, body = await self._exchange_async(frame, limit)
        except asyncio.CancelledError:
            if not _only_looks(command):
                self.close()
            raise
        return _result(command, kind, body, time.monotonic_ns() - began)

    async def _settle_async(self) -> None:
        """Waits for the reply that nobody waited for."""
        self._owes = False
        await self._send_rest_async(self._unsent)
        await self._receive_async(HOUSEKEEPING)

    async def _exchange_async(self, frame: bytes, limit: float) -> tuple[int, bytes]:
        frame = self._ready(frame)
        rest = memoryview(frame)[self._send_now(frame) :]
        if rest:
            await self._send_rest_async(rest)
        return self._take_soon() or await self._receive_async(limit)

    async def _receive_async(self, limit: float) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        sock = self._sock
        loop.add_reader(sock, self._readable, waiter)
        self._unwatch = lambda: loop.remove_reader(sock)
        timer = loop.call_later(limit, self._late, loop, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._owes = waiter.cancelled()  # else the reply came at that very moment
            if not self._owes and waiter.exception() is not None:
                self.close()
            raise
        finally:
            timer.cancel()
            self._let_go()

    async def _send_rest_async(self, rest: memoryview) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TAKING):
                while rest:
                    ready: asyncio.Future[None] = loop.create_future()
                    loop.add_writer(self._sock, _wake, ready)
                    try:
                        await ready
                    finally:
                        loop.remove_writer(self._sock)
                    rest = rest[self._send_now(rest) :]
        except TimeoutError as error:
            raise self._deaf() from error
        except asyncio.CancelledError:  # half a request: nothing can follow but the rest of it
            self._unsent, self._owes = rest, True
            raise
        self._unsent = memoryview(b"")

    def _readable(self, waiter: asyncio.Future[tuple[int, bytes]]) -> None:
        if waiter.done():
            return
        try:
            frame = self._take(socket.MSG_DONTWAIT)
        except (LinkLost, ProtocolViolation) as error:
            waiter.set_exception(error)
        else:
            if frame is not None:
                waiter.set_result(frame)

    def _late(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[tuple[int, bytes]]) -> None:
        if not waiter.done():
            self._interrupt()
            loop.call_later(GRACE, self._too_late, waiter)

    def _too_late(self, waiter: asyncio.Future[tuple[int, bytes]]) -> None:
        if not waiter.done():
            waiter.set_exception(self._overdue())

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _interrupt(self) -> None:
        """The time is up. What is not over a moment later is killed."""
        self._worker.interrupt()

    def _lost(self, error: OSError | None) -> LinkLost:
        self.close()
        return LinkLost("died", "the worker died" if error is None else f"the worker died ({error.strerror})")

    def _deaf(self) -> LinkLost:
        self._worker.kill()
        self.close()
        return LinkLost("died", "the worker did not take its request and was killed")

    def _overdue(self) -> LinkLost:
        self._worker.kill()
        self.close()
        return LinkLost("timeout", "the worker did not react to the interrupt and was killed")


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class InlineGuest(Protocol):
    """What an inline link needs of a guest (`guest.Guest`)."""

    def step(self, request: bytes, /) -> Any: ...
    def batch(self, requests: Any, /) -> Any: ...
    def dump(self, reference: bytes | None = None, /) -> bytes: ...
    def load(self, images: Any, /) -> None: ...
    def interrupt(self) -> None: ...


class InlineLink:
    """A guest in this process: no process boundary and no jail, only the WebAssembly one. For trusted code and tests.

    A native loop that does not poll the interrupt flag cannot be stopped here; a worker is killed. (Taking the guest's memory away
    makes most of them trap, but kills this process when it meets one of wasmtime's own copying routines; tried with 50.0.1.)
    """

    def __init__(
        self,
        guest: InlineGuest,
        watch: Callable[[InlineGuest, float], Any],
        unwatch: Callable[[Any], None],
        give_back: Callable[[Any], None],
    ) -> None:
        self._guest = guest
        self._give_back = give_back
        self._watch = watch
        self._unwatch = unwatch
        self.closed = False

    pid = None

    def perform(self, command: GuestCommand) -> Any:
        """One request, in this thread."""
        if isinstance(command, Dump):
            return self._guest.dump(command.reference)
        if isinstance(command, Load):
            self._guest.load(command.images)
            return None
        token = self._watch(self._guest, command.limit)
        try:
            guest = self._guest
            reply = guest.step(command.request) if isinstance(command, Step) else guest.batch(command.requests)
        finally:
            self._unwatch(token)
        return Reply(reply.status, reply.ns, reply.clock_reads, reply.output)

    async def perform_async(self, command: GuestCommand) -> Any:
        """The same: the event loop stands still while the guest computes."""
        return self.perform(command)

    def close(self) -> None:
        """Drop the guest."""
        if not self.closed:
            self.closed = True
            self._give_back(self._guest)

    def abort(self) -> None:
        """Stop the guest; the request under way ends as interrupted."""
        self._guest.interrupt()
