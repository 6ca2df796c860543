"""The host's supply of workers: `WorkerPool`."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import socket
import threading
import time
import weakref
from typing import Final, Self, get_args

from gloveport.engines.jail import descriptors
from gloveport.engines.wasm.handle import Worker, forget_all, memory_page
from gloveport.engines.wasm.nursery import Nursery, NurseryGone, Sandbox
from gloveport.errors import EngineUnavailableError

__all__ = ("Sandbox", "Worker", "WorkerPool")

_GUESTS: Final = "gloveport.engines.wasm.quickjs:guests"
_RESTARTS: Final = 3
_MAX_SPARES: Final = 64


class WorkerPool:
    """Workers that were forked, jailed and instantiated before they are wanted.

    `sandbox`: `"require"` (default) refuses to start, with `SandboxUnavailableError`, when a layer of the jail is missing or does not hold;
    `"auto"` goes on without it after one `SandboxWarning`; `"off"` has separate processes and no jail at all, for code that you trust.
    `spares` (1 to 64, default 2): how many workers wait. `guests` names, as `module:function`, what loads the guest in the zygote.

    Nothing is started before the first `take`. Any thread may use a pool; a forked copy of the process starts workers of its own, and never
    touches its parent's. The zygote is replaced when it died. All workers die with the pool, and with the process, however that ends.
    """

    def __init__(self, *, sandbox: Sandbox = "require", spares: int = 2, guests: str = _GUESTS) -> None:
        if sandbox not in get_args(Sandbox):
            raise ValueError(f'sandbox is "require", "auto" or "off", not {sandbox!r}')
        if not 1 <= spares <= _MAX_SPARES:
            raise ValueError(f"spares is a number from 1 to {_MAX_SPARES}, not {spares!r}")
        self.sandbox: Final = sandbox
        self.spares: Final = spares
        self._guests = guests
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None
        self._groups: dict[str, _Group] = {}
        self._closed = False
        _pools.add(self)

    def start(self) -> None:
        """Starts the zygote now instead of at the first `take`. Raises `SandboxUnavailableError` or `EngineUnavailableError`."""
        self._current()

    def take(self, timeout: float = 60.0) -> Worker:
        """A worker of its own for one session; the caller closes it. Usually one is ready and this takes some ten microseconds.

        Raises `SandboxUnavailableError`, or `EngineUnavailableError` when none became ready within `timeout` seconds or the pool is closed.
        """
        deadline = time.monotonic() + timeout
        gone = ""
        for _ in range(_RESTARTS):
            nursery = self._current()
            try:
                worker = nursery.take(deadline)
            except NurseryGone as error:
                gone = str(error)
                self._discard(nursery)
                continue
            if worker is None:
                raise EngineUnavailableError(f"no worker became ready within {timeout:g} seconds")
            return worker
        raise EngineUnavailableError(f"the process that makes workers keeps ending: {gone}")

    async def take_async(self, timeout: float = 60.0) -> Worker:
        """`take` without blocking the event loop (any that anyio supports)."""
        nursery = self._nursery
        if nursery is not None and self._owner == os.getpid():
            try:
                worker = nursery.try_take()
            except NurseryGone:
                worker = None
            if worker is not None:
                return worker
        import anyio.to_thread

        # Abandoned when cancelled: the worker that then comes is dropped, which ends it.
        return await anyio.to_thread.run_sync(self.take, timeout, abandon_on_cancel=True)

    def open_shared(self, group: str) -> Worker:
        """A session in the one worker that all sessions of `group` share. It ends with its last session.

        Sessions of one group are apart as JavaScript, not as processes: use a group for one trust unit. Raises like `take`.
        """
        gone = ""
        for _ in range(_RESTARTS):
            nursery = self._current()
            with self._lock:
                members = self._groups.get(group)
                if members is None or not members.alive():
                    members = self._groups[group] = _Group(nursery)
            try:
                return members.open()
            except NurseryGone as error:
                gone = str(error)
                with self._lock:
                    if self._groups.get(group) is members:
                        del self._groups[group]
                if nursery.process.poll() is not None:
                    self._discard(nursery)
        raise EngineUnavailableError(f"the worker of group {group!r} keeps ending: {gone}")

    def close(self) -> None:
        """Ends the zygote and every worker, taken or not. Idempotent; nothing can be taken afterwards."""
        if self._owner != os.getpid():
            _after_fork()
        with self._lock:
            self._closed = True
            nursery, self._nursery = self._nursery, None
            groups, self._groups = list(self._groups.values()), {}
        for members in groups:
            members.end()
        if nursery is not None:
            nursery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        nursery = getattr(self, "_nursery", None)
        if nursery is not None and self._owner == os.getpid():
            nursery.close()

    def _current(self) -> Nursery:
        if self._owner != os.getpid():
            _after_fork()  # forked by something that does not run Python's hooks
        with self._lock:
            if self._closed:
                raise EngineUnavailableError("the worker pool is closed")
            if self._nursery is None:
                self._nursery = Nursery(self.sandbox, self.spares, self._guests)
            return self._nursery

    def _discard(self, nursery: Nursery) -> None:
        with self._lock:
            if self._nursery is nursery:
                self._nursery = None
        nursery.close()

    def forget(self) -> None:
        """In a forked copy of the process: lets go of everything that belongs to the parent."""
        self._lock = threading.Lock()
        self._owner = os.getpid()
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.forget()
        for members in self._groups.values():
            members.forget()
        self._groups = {}


class _Group:
    """The host's end of one shared worker."""

    def __init__(self, nursery: Nursery) -> None:
        self.nursery = nursery
        self.lock = threading.Lock()
        self.sessions = 0
        self._leaving: collections.deque[None] = collections.deque()
        """Those that have left while somebody had the lock: a collected session leaves in any thread, wherever that just is, and
        must not wait."""
        self.ended = False
        self.pidfd = -1
        self.control: socket.socket | None = None

    def alive(self) -> bool:
        with self.lock:
            return not self.ended

    def open(self) -> Worker:
        try:
            return self._open()
        finally:
            self._see_off()

    def _open(self) -> Worker:
        with self.lock:
            if self.ended:
                raise NurseryGone("its last session was closed")
            if self.control is None:
                self._start()
            control = self.control
            assert control is not None
            with contextlib.ExitStack() as failed:
                pidfd = os.dup(self.pidfd)
                failed.callback(os.close, pidfd)
                page = memory_page()
                failed.callback(os.close, page)
                ours, theirs = socket.socketpair()
                failed.callback(ours.close)
                with theirs:
                    try:
                        descriptors.send(control, b"s", (theirs.fileno(), page))
                    except OSError as error:
                        self._end()
                        raise NurseryGone(str(error)) from error
                failed.pop_all()
            self.sessions += 1
            return Worker(ours, pidfd, page, shared=True, on_close=self._left)

    def _start(self) -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.nursery.send_group(theirs)
            theirs.close()
            control.settimeout(10)
            word, fds = descriptors.receive(control, 1, 1)
            control.setblocking(True)
        except (OSError, NurseryGone) as error:
            control.close()
            self.ended = True
            raise NurseryGone(str(error)) from error
        finally:
            theirs.close()
        if word != b"r" or len(fds) != 1:
            control.close()
            self.ended = True
            raise NurseryGone("it ended before it was ready")
        self.control, self.pidfd = control, fds[0]

    def _left(self) -> None:
        self._leaving.append(None)
        self._see_off()

    def _see_off(self) -> None:
        """Whoever has the lock does this after giving it back."""
        while self._leaving and self.lock.acquire(blocking=False):
            try:
                while self._leaving:
                    self._leaving.popleft()
                    self.sessions -= 1
                    if not self.sessions:
                        self._end()
            finally:
                self.lock.release()

    def end(self) -> None:
        with self.lock:
            self._end()

    def _end(self) -> None:
        """Closing its control socket ends the process."""
        self.ended = True
        control, pidfd, self.control, self.pidfd = self.control, self.pidfd, None, -1  # first: see `_Hold._close`
        if control is not None:
            control.close()
            os.close(pidfd)

    def forget(self) -> None:
        self.lock = threading.Lock()
        self._end()


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _after_fork() -> None:
    forget_all()
    for pool in list(_pools):
        pool.forget()


def _at_exit() -> None:
    for pool in list(_pools):
        pool.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
