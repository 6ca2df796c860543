"""Sockets to a machine, and the two drivers of conversations: one blocks, one waits in an event loop (asyncio or trio).

Idle connections are kept and used by both: they are plain sockets, bound to no event loop and to no thread. After a fork the child
drops those of its parent.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import select
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from ..errors import SandboxError, UnreachableError
from .steps import RECEIVE, Call, Disconnected, Give, Next, Owed, Patience, Reconnect, Steps

__all__ = ("Channel", "Watcher", "connect")

T = TypeVar("T")
_RECEIVE_BYTES: Final = 1024 * 1024
_LOOK: Final = 1.0
"""Seconds without an answer after which it is looked up whether the machine lives."""
_OWED: Final = 2.0
"""Seconds for an answer that somebody who was cut off still has to hear: usually it comes within a few milliseconds."""
_KEEP: Final = 4
"""Idle connections that are kept."""
_ATTEMPTS: Final = 4
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN})


class Watcher(Protocol):
    """Knows how the machine at the other end is."""

    def lost(self) -> None:
        """A connection was refused. Raises when the machine is gone."""

    def closed(self) -> None:
        """A connection was closed. Returns when the machine answers again, or does not for a while; raises when it is gone."""

    def silent(self, waited: float, *, heard: bool, overdue: bool) -> bool:
        """Nothing came for `waited` seconds. Raises when the machine is gone, or does not answer although it should.

        `heard` tells whether it had answered anything on this connection. Gives whether the time does not count: it is paused.
        """
        ...


class _Socket(socket.socket):
    """Closed without a word when nobody has it any more: a handle of a machine need not be closed, and may be part of a cycle."""

    def __del__(self) -> None:
        self.close()


def connect(folder: Path, name: str, *, wait: float = 5.0) -> socket.socket:
    """A connection to a socket in this folder, which may have a path of any length. It does not block afterwards.

    Raises `OSError`; `BlockingIOError` when the other side has accepted nobody for `wait` seconds.
    """
    sock = _Socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    directory = -1
    try:
        directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        end = time.monotonic() + wait
        while True:
            try:
                # The address of a unix socket has at most 107 bytes.
                sock.connect(f"/proc/self/fd/{directory}/{name}")
                return sock
            except BlockingIOError:  # the backlog is full
                if time.monotonic() > end:
                    raise
                time.sleep(0.002)
    except BaseException:
        sock.close()
        raise
    finally:
        if directory >= 0:
            os.close(directory)


class _Line:
    """One connection in use."""

    __slots__ = ("deadline", "heard", "owed", "patience", "reused", "since", "sock")

    def __init__(self, sock: socket.socket, *, reused: bool) -> None:
        self.sock, self.reused = sock, reused
        self.heard = False
        self.owed = False
        self.since = time.monotonic()
        self.patience: float | None = None
        self.deadline: float | None = None


class Channel:
    """The way to one of a machine's sockets."""

    def __init__(self, folder: Path, name: str, watcher: Watcher) -> None:
        self._folder, self._name, self._watcher = folder, name, watcher
        self._idle: list[socket.socket] = []
        self._owner = os.getpid()

    # ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, fresh: bool) -> _Line:
        if self._owner != os.getpid():
            self.drop()
        while self._idle and not fresh:
            try:
                sock = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if _usable(sock):
                return _Line(sock, reused=True)
            sock.close()
        return _Line(self._open(), reused=False)

    def _open(self) -> socket.socket:
        for attempt in range(_ATTEMPTS):
            try:
                return connect(self._folder, self._name)
            except OSError as error:
                self._watcher.lost()
                # The machine lives, and its supervisor is being started anew.
                if attempt + 1 == _ATTEMPTS:
                    raise Disconnected(began=False) from error
                time.sleep(0.02 * 2**attempt)
        raise AssertionError

    def _put_back(self, line: _Line) -> None:
        if len(self._idle) < _KEEP and self._owner == os.getpid():
            self._idle.append(line.sock)
        else:
            line.sock.close()

    def drop(self) -> None:
        """Close what is idle."""
        idle, self._idle, self._owner = self._idle, [], os.getpid()
        for sock in idle:
            sock.close()

    def __del__(self) -> None:
        for sock in getattr(self, "_idle", ()):
            sock.close()  # after a fork, too: that closes only the copy

    def ready(self) -> bool:
        """Whether an open connection is at hand, so that the machine was alive and awake a moment ago."""
        return self._owner == os.getpid() and any(map(_usable, self._idle))

    def open(self) -> socket.socket:
        """A connection of one's own, for what is no conversation."""
        return self._open()

    # ── blocking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, make: Callable[[], Steps[T]], *, timeout: float | None = None, once: bool = False) -> T:
        """Drive a conversation to its end. It is begun again when a kept connection turns out to be dead, unless it can be begun only
        `once`: then it has a new connection.

        Raises `TimeoutError` after `timeout` seconds; what was asked for goes on in the machine.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for attempt in range(_ATTEMPTS):
            walk = self.stream(make(), deadline, fresh=once)
            try:
                while True:
                    next(walk)
            except StopIteration as stop:
                return stop.value
            except Disconnected as error:
                self._after(error, attempt, once)
            finally:
                walk.close()
        raise AssertionError

    def stream(self, steps: Steps[T], deadline: float | None = None, *, fresh: bool = True) -> Generator[Any, None, T]:
        """Drive a conversation and give what it gives on its way. What it returns is what this generator returns."""
        line = self._take(fresh)
        line.deadline = deadline
        clean = False
        try:
            act: Callable[[Any], Any]
            value: Any
            act, value = steps.send, None
            while True:
                try:
                    step = act(value)
                except StopIteration as stop:
                    clean = True
                    return stop.value
                act, value = steps.send, None
                try:
                    if isinstance(step, bytes):
                        _send(line, step, self._wait)
                    elif step is RECEIVE:
                        value = _receive(line, self._wait)
                    elif isinstance(step, Call):
                        step.function(step.argument)
                    elif isinstance(step, Give):
                        yield step.item
                    elif isinstance(step, Next):
                        value = next(_plain(step.source), None)
                    elif not self._settle(line, step):
                        line.sock.close()
                        line.sock, line.heard = self._open(), False
                except Disconnected as error:
                    act, value = steps.throw, error
        except BaseException:
            if _owes(line, steps):
                self._hear(line, steps)
            raise
        finally:
            steps.close()
            self._put_back(line) if clean else line.sock.close()

    def _hear(self, line: _Line, steps: Steps[Any]) -> None:
        """The answer that a conversation still owes, which was cut off while it waited for that."""
        line.deadline = time.monotonic() + _OWED
        with contextlib.suppress(SandboxError, OSError, Disconnected, StopIteration):
            while line.owed:
                step = steps.send(_receive(line, self._wait))
                if step is not RECEIVE:
                    self._settle(line, step)

    def _wait(self, line: _Line, events: int) -> None:
        poll = select.poll()
        poll.register(line.sock, events)
        while True:
            left = _LOOK if line.deadline is None else min(_LOOK, line.deadline - time.monotonic())
            ready = poll.poll(max(left, 0) * 1000)
            if line.deadline is not None and time.monotonic() >= line.deadline:  # also while output comes and comes
                raise TimeoutError("the machine had not answered in the time that was given")
            if ready:
                return
            self._look(line)

    # ── in an event loop ─────────────────────────────────────────────────────────────────────────────────────────────

    async def run_async(self, make: Callable[[], Steps[T]], *, once: bool = False) -> T:
        """As `run`."""
        for attempt in range(_ATTEMPTS):
            result: list[T] = []
            walk = self.stream_async(make(), result, fresh=once)
            try:
                async for _ in walk:
                    pass
                return result[0]
            except Disconnected as error:
                await anyio.to_thread.run_sync(self._after, error, attempt, once)
            finally:
                await walk.aclose()
        raise AssertionError

    async def stream_async(
        self, steps: Steps[T], result: list[T] | None = None, *, fresh: bool = True
    ) -> AsyncGenerator[Any, None]:
        """As `stream`; what the conversation returns is put into `result`."""
        line = await self._take_async(fresh)
        clean = False
        try:
            act: Callable[[Any], Any]
            value: Any
            act, value = steps.send, None
            while True:
                try:
                    step = act(value)
                except StopIteration as stop:
                    clean = True
                    if result is not None:
                        result.append(stop.value)
                    return
                act, value = steps.send, None
                try:
                    if isinstance(step, bytes):
                        await _send_async(line, step, self._look)
                    elif step is RECEIVE:
                        value = await _receive_async(line, self._look)
                    elif isinstance(step, Call):
                        waited = step.function(step.argument)
                        if inspect.isawaitable(waited):
                            await waited
                    elif isinstance(step, Give):
                        yield step.item
                    elif isinstance(step, Next):
                        value = await _next_async(step.source)
                    elif not self._settle(line, step):
                        line.sock.close()
                        line.sock, line.heard = await anyio.to_thread.run_sync(self._open), False
                except Disconnected as error:
                    act, value = steps.throw, error
        except BaseException:
            if _owes(line, steps):
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._hear, line, steps)
            raise
        finally:
            steps.close()
            self._put_back(line) if clean else line.sock.close()

    async def _take_async(self, fresh: bool) -> _Line:
        if not fresh and self._owner == os.getpid():
            while self._idle:
                try:
                    sock = self._idle.pop()
                except IndexError:
                    break
                if _usable(sock):
                    return _Line(sock, reused=True)
                sock.close()
        return await anyio.to_thread.run_sync(
            self._take, True
        )  # to connect wakes a paused machine, which takes a moment

    # ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _after(self, error: Disconnected, attempt: int, once: bool) -> None:
        """A conversation was cut off. Whether it may be begun again: only when nothing of it was answered."""
        self._watcher.closed()
        if error.began or once or attempt + 1 == _ATTEMPTS:
            raise UnreachableError("the machine closed the connection before it had answered") from error
        self.drop()

    def _look(self, line: _Line) -> None:
        waited = time.monotonic() - line.since
        overdue = line.patience is not None and waited > line.patience
        if self._watcher.silent(waited, heard=line.heard, overdue=overdue):
            line.since = time.monotonic()

    @staticmethod
    def _settle(line: _Line, step: Any) -> bool:
        """Whether this step needs no input or output."""
        if isinstance(step, Patience):
            line.patience = step.seconds
            return True
        if isinstance(step, Owed):
            line.owed = step.on
            return True
        if isinstance(step, Reconnect):
            return False
        raise TypeError(f"a conversation yielded {step!r}")


def _owes(line: _Line, steps: Steps[Any]) -> bool:
    """Whether a conversation was cut off, and did not end by itself, while it waited for an answer that somebody must hear."""
    return line.owed and inspect.getgeneratorstate(steps) == inspect.GEN_SUSPENDED


def _usable(sock: socket.socket) -> bool:
    """Whether an idle connection is open and silent."""
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # closed, or an answer that nobody asked for


def _has_answer(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _send(line: _Line, data: bytes, wait: Callable[[_Line, int], None]) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[line.sock.send(rest, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            wait(line, select.POLLOUT)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            if not _has_answer(line.sock):
                raise Disconnected(began=line.heard) from error
            break  # it has said why, and closed without reading
    line.since = time.monotonic()


def _receive(line: _Line, wait: Callable[[_Line, int], None]) -> bytes:
    while True:
        wait(line, select.POLLIN)
        try:
            data = line.sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            continue
        except ConnectionError:
            data = b""
        line.heard, line.since = line.heard or bool(data), time.monotonic()
        return data


async def _send_async(line: _Line, data: bytes, look: Callable[[_Line], None]) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[line.sock.send(rest, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            await _ready(line, look, anyio.wait_writable)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            if not _has_answer(line.sock):
                raise Disconnected(began=line.heard) from error
            break  # it has said why, and closed without reading
    line.since = time.monotonic()


async def _receive_async(line: _Line, look: Callable[[_Line], None]) -> bytes:
    waited = False
    while True:
        try:
            data = line.sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            await _ready(line, look, anyio.wait_readable)
            waited = True
            continue
        except ConnectionError:
            data = b""
        if not waited:  # it comes faster than it is read, and others must have their turn
            await anyio.lowlevel.checkpoint()
        line.heard, line.since = line.heard or bool(data), time.monotonic()
        return data


async def _ready(line: _Line, look: Callable[[_Line], None], wait: Callable[[socket.socket], Any]) -> None:
    while True:
        with anyio.move_on_after(_LOOK):
            await wait(line.sock)
            return
        await anyio.to_thread.run_sync(look, line)


def _plain(source: Iterator[bytes] | AsyncIterator[bytes]) -> Iterator[bytes]:
    if isinstance(source, AsyncIterator):
        raise TypeError("an async iterator needs the async class")
    return source


async def _next_async(source: Iterator[bytes] | AsyncIterator[bytes]) -> bytes | None:
    if isinstance(source, AsyncIterator):
        return await anext(source, None)
    # A file or a generator may block.
    return await anyio.to_thread.run_sync(next, source, None)
