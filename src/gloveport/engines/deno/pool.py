"""The host's supply of workers: `WorkerPool`, and `Pools` of several kinds."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from ...errors import EngineUnavailableError
from ...policy import SandboxMode
from .process import Process, Program, start
from .worker import DenoWorker, forget_all

__all__ = ("Pools", "WorkerPool")

_DYING_TICK: Final = 0.02
_LET_GO_FIRST: Final = 0.1
"""Seconds until a taken worker is replaced, while another one is ready: what was wanted now goes on undisturbed."""
_MAX_POOLS: Final = 4
"""Kinds of worker of one engine that are kept ready at the same time; of those used longest ago the spares are ended."""


class WorkerPool:
    """Workers of one kind, started and jailed before they are wanted. Nothing is started before the first `take`.

    `program` is asked for every worker; `name` is that of the kind. `spares` (default 2): how many wait. One thread starts them and waits
    for the end of those that are done with. Any thread may use a pool; a forked copy of the process starts workers of its own. All
    workers die with the process, however that ends.
    """

    def __init__(self, program: Callable[[], Program], sandbox: SandboxMode, *, name: str, spares: int = 2) -> None:
        self.sandbox: Final[SandboxMode] = sandbox
        self._program = program
        self._name = name
        self._spares = spares
        self._warned = False
        self._closed = False
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._change = threading.Condition()
        self._ready: deque[DenoWorker] = deque()
        self._dying: deque[Process] = deque()
        self._waiting = 0
        self._error: Exception | None = None
        self._calm = 0.0
        self._starting = False
        self._thread: threading.Thread | None = None
        self._idle = False

    def take(self, timeout: float = 60.0) -> DenoWorker:
        """A worker for one session; the caller closes it. Usually one is ready.

        Raises `SandboxUnavailableError`, or `EngineUnavailableError` when none became ready within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if not self._warned:  # the first one in the caller's own thread, where a warning belongs
            self._warned = True
            worker = self.try_take()
            if worker is None:
                try:
                    worker = self._made(warn=True)
                except BaseException:
                    self._warned = False
                    raise
            with self._change:
                self._refill()
            return worker
        with self._change:
            self._waiting += 1
            try:
                return self._await(deadline, timeout)
            finally:
                self._waiting -= 1

    def _await(self, deadline: float, timeout: float) -> DenoWorker:
        while True:
            if self._idle or self._thread is None:
                self._wake()
            worker = self._pop()
            if worker is not None:
                self._refill()
                return worker
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if not self._change.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                raise EngineUnavailableError(f"no {self._name} worker became ready within {timeout:g} seconds")

    def try_take(self) -> DenoWorker | None:
        """One that is ready now, if there is one."""
        with self._change:
            worker = self._pop()
            if worker is not None:
                self._refill()
            return worker

    async def take_async(self) -> DenoWorker:
        """`take` without blocking the event loop."""
        worker = self.try_take()
        if worker is not None:
            return worker
        import anyio.to_thread

        # Abandoned when cancelled: the worker that then comes is dropped, which ends it.
        return await anyio.to_thread.run_sync(self.take, abandon_on_cancel=True)

    def prepare(self) -> None:
        """Starts the spares now, in the background, instead of after the first `take`."""
        with self._change:
            self._wake()

    def settle(self, timeout: float = 10.0) -> None:
        """Waits until every spare is ready and all that is done with has ended, at most so long."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and (len(self._ready) < self._spares or self._dying):
            time.sleep(0.01)

    def _pop(self) -> DenoWorker | None:
        while self._ready:
            worker = self._ready.popleft()
            if worker.alive:
                self._calm = time.monotonic() + _LET_GO_FIRST
                return worker
            worker.close()
        return None

    def _made(self, *, warn: bool) -> DenoWorker:
        return DenoWorker(start(self._program(), self.sandbox, warn=warn), self._bury)

    def _bury(self, process: Process) -> None:
        """Its end is waited for by the thread. (Called by finalizers: a lock that is held is somebody else's, or our own.)"""
        self._dying.append(process)
        if self._change.acquire(blocking=False):
            try:
                self._have_thread()
            finally:
                self._change.release()

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _wake(self) -> None:
        """Workers are wanted (again)."""
        self._idle = False
        self._have_thread()

    def _refill(self) -> None:
        """The same, for whoever has one: it is not lost because no thread can be started now."""
        with contextlib.suppress(RuntimeError):
            self._wake()

    def _have_thread(self) -> None:
        if self._thread is None and not (self._closed and not self._dying):
            thread = threading.Thread(target=self._serve, name=f"gloveport-{self._name}", daemon=True)
            thread.start()  # it waits for the lock that we have; and if none can be started now, another call tries again
            self._thread = thread
        self._change.notify_all()

    def _wanted(self) -> bool:
        return not self._closed and not self._idle and len(self._ready) < self._spares

    def _serve(self) -> None:
        while True:
            self._collect()
            with self._change:
                if self._closed and not self._dying:
                    self._thread = None
                    return
                left = self._calm - time.monotonic() if self._ready and not self._waiting else 0.0
                if not self._wanted() or left > 0:
                    self._change.wait(_DYING_TICK if self._dying else left if left > 0 else None)
                    continue
                self._starting = True
            try:
                worker = self._made(warn=False)
            except Exception as error:  # told to whoever waits, or to nobody: the next `take` tries again
                with self._change:
                    self._starting = False
                    self._error = error if self._waiting else None
                    self._idle = True
                    self._change.notify_all()
                continue
            with self._change:
                self._starting = False
                if not self._closed and not (self._idle and not self._waiting):
                    self._ready.append(worker)
                    worker = None
                self._change.notify_all()
            if worker is not None:
                worker.close()

    def _collect(self) -> None:
        for _ in range(len(self._dying)):
            process = self._dying.popleft()
            if process.poll() is None:
                self._dying.append(process)
            else:
                process.close()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def rest(self) -> None:
        """Ends the spares; the next `take` starts new ones."""
        with self._change:
            self._idle = True
            spares, self._ready = self._ready, deque()
            self._change.notify_all()  # who waits for one says so again
        for worker in spares:
            worker.close()

    def close(self) -> None:
        """Ends every spare. Idempotent; nothing can be taken afterwards."""
        with self._change:
            self._closed = True
        self.rest()
        with self._change:
            self._change.notify_all()

    def forget(self) -> None:
        """In a forked copy of the process: lets go of everything that belongs to the parent."""
        dying = self._dying
        self._reset()
        for process in dying:
            process.forget()


Kind = TypeVar("Kind", bound=Hashable)


class Pools(Generic[Kind]):
    """This process's pools of one engine, one for each kind of worker that is in use."""

    def __init__(self, make: Callable[[Kind], WorkerPool]) -> None:
        self._make = make
        self._pools: dict[Kind, WorkerPool] = {}
        self._lock = threading.Lock()
        _registries.add(self)

    def get(self, kind: Kind) -> WorkerPool:
        """The workers of that kind."""
        with self._lock:
            pool = self._pools.pop(kind, None) or self._make(kind)
            self._pools[kind] = pool  # at the end: the order is that of use
            stale = list(self._pools.values())[:-_MAX_POOLS]
        for other in stale:
            other.rest()
        return pool

    def after_fork(self) -> None:
        """In the child: the thread that held the lock does not exist."""
        self._lock = threading.Lock()


_registries: weakref.WeakSet[Pools[Any]] = weakref.WeakSet()
_all: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _after_fork() -> None:
    for registry in list(_registries):
        registry.after_fork()
    forget_all()
    for pool in list(_all):
        pool.forget()


def _at_exit() -> None:
    for pool in list(_all):
        pool.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
