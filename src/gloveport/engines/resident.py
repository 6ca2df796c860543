"""A process that stays, and serves one request at a time for everybody: `Resident`."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ("Resident", "Served")

_TICK: Final = 0.005
"""Seconds between two looks of an event loop at whether the process is free. Locks of event loops belong to one loop each."""


class Served(Protocol):
    """What is lent: the host's hold on one process."""

    def kill(self) -> None:
        """Ends the process at once; whoever waits for its answer sees that."""

    def close(self) -> None:
        """Ends it, and lets go of it. In a forked copy of the host it only lets go."""


P = TypeVar("P", bound=Served)


class Resident(Generic[P]):
    """One process, started by the first request, lent to one request at a time, and started anew after it died.

    Args:
        start: starts a process; blocks until it is ready.
        patience: seconds after which the process counts as stuck at another request, and an extra one serves this request.
        extras: how many extra ones there may be at the same time.
        busy: the error when nothing was free in time.
        closed: the error after `close`.
        forked: called in a forked child, where threads that held locks of the owner do not exist.

    Any thread and any event loop may use it, also at the same time. It ends with the host; after a fork the child starts its own.
    """

    def __init__(
        self,
        start: Callable[[], P],
        *,
        patience: float,
        extras: int,
        busy: Callable[[], Exception],
        closed: Callable[[], Exception],
        forked: Callable[[], None] | None = None,
    ) -> None:
        self._start = start
        self._patience = patience
        self._extras = extras
        self._busy = busy
        self._closed_error = closed
        self._forked = forked
        self._process: P | None = None
        self._lent: list[P] = []
        """Extra ones."""
        self._closed = False
        self._reset()
        _all.add(self)

    @property
    def process(self) -> P | None:
        """The process, when there is one. It may have died since the last request."""
        return self._process

    @contextmanager
    def borrowed(self, timeout: float, patience: float | None = None) -> Generator[P]:
        """It, or an extra one, for one request. Blocks, at most about `timeout` seconds until it is free."""
        give_up = time.monotonic() + timeout
        while not self._lock.acquire(timeout=self._patience if patience is None else patience):
            if self._extra.acquire(blocking=False):
                try:
                    process = self._started()
                    self._lent.append(process)
                    try:
                        self._check_open()
                        yield process
                    finally:
                        self._forget(process)
                        process.close()
                finally:
                    self._extra.release()
                return
            if time.monotonic() > give_up:
                raise self._busy()
        try:
            if self._process is None:
                self._process = self._started()
                self._check_open()
            yield self._process
        finally:
            self._give_back()

    @contextmanager
    def borrowed_now(self) -> Generator[P | None]:
        """It, if that takes no time; else `None`."""
        if not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            yield self._process
        finally:
            self._give_back()

    @asynccontextmanager
    async def borrowed_async(self, timeout: float) -> AsyncGenerator[P]:
        """`borrowed` for asyncio and trio; blocks neither."""
        import anyio

        began = time.monotonic()
        while not self._lock.acquire(blocking=False):
            waited = time.monotonic() - began
            if waited > self._patience and self._extra.acquire(blocking=False):
                try:
                    process = await self._started_async()
                    self._lent.append(process)
                    try:
                        self._check_open()
                        yield process
                    finally:
                        self._forget(process)
                        process.kill()
                        with anyio.CancelScope(shield=True):
                            await anyio.to_thread.run_sync(process.close)
                finally:
                    self._extra.release()
                return
            if waited > timeout:
                raise self._busy()
            await anyio.sleep(_TICK)
        try:
            if self._process is None:
                self._process = await self._started_async()
                self._check_open()
            yield self._process
        finally:
            self._give_back()

    def prepare(self) -> None:
        """Have it started in the background, the first time that this is called: a request that comes later need not wait for that.
        What fails there, fails for the request again."""
        if not self._prepared:
            self._prepared = True
            with contextlib.suppress(RuntimeError):  # no thread can be started
                threading.Thread(target=self._prepare, name="gloveport-prepare", daemon=True).start()

    def _prepare(self) -> None:
        with contextlib.suppress(Exception), self.borrowed(0.0):
            pass

    def discard(self, process: P) -> None:
        """Ends it: it died, or is not to be trusted with another request. For the borrower."""
        if process is self._process:
            self._let_go()

    async def _started_async(self) -> P:
        from anyio import CancelScope, to_thread

        process: P | None = None
        with CancelScope(shield=True):  # half a second at most; who was cancelled leaves it to the next request
            process = await to_thread.run_sync(self._started)
        assert process is not None  # the scope is not cancelled
        return process

    def _started(self) -> P:
        self._check_open()
        return self._start()

    def _check_open(self) -> None:
        """Also once a process is where `close` looks for it: one that was still starting then is ended by its borrower."""
        if self._closed:
            raise self._closed_error()

    def _give_back(self) -> None:
        try:
            if self._closed:
                self._let_go()
        finally:
            self._lock.release()

    def _forget(self, extra: P) -> None:
        if extra in self._lent:  # not in a fork
            self._lent.remove(extra)

    def close(self) -> None:
        """Ends it; later requests raise. Idempotent."""
        self._closed = True
        for process in (self._process, *self._lent):
            if process is not None:
                process.kill()  # whoever waits for an answer sees the end now
        if self._lock.acquire(timeout=1.0):
            try:
                self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._extra = threading.BoundedSemaphore(self._extras)
        self._prepared = False

    def after_fork(self) -> None:
        """In the child: the process is the parent's, and so are the threads that held the locks."""
        self._reset()
        if self._forked is not None:
            self._forked()
        self._let_go()
        lent, self._lent = self._lent, []
        for process in lent:
            process.close()


_all: weakref.WeakSet[Resident[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for resident in list(_all):
        resident.after_fork()


def _at_exit() -> None:
    for resident in list(_all):
        resident.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
