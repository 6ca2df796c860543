"""The host's hold on one worker."""

from __future__ import annotations

import os
import signal
import socket
import weakref
from collections.abc import Callable
from typing import Final

from ..jail.network import NetworkSockets
from .bell import Bell
from .process import Process
from .workspace import Workspace

__all__ = ("DenoWorker", "forget_all")

_FATAL = frozenset({128 + 4, 128 + 5, 128 + 6, 128 + 11})
"""SIGILL, SIGTRAP, SIGABRT, SIGSEGV: how V8 and the allocator end a process that has no memory left (V8 15: SIGTRAP)."""

_END: Final = 10.0
"""Seconds in which a dying process has to end: on a busy machine V8 writes its last words slowly."""


class DenoWorker:
    """One process for one session. Any thread may use it; dropped, it takes its process along.

    `sock` is a connected stream socket that speaks `wire/PROTOCOL.md`.
    """

    __slots__ = ("__weakref__", "_finalizer", "_process", "sock")

    def __init__(self, process: Process, bury: Callable[[Process], None]) -> None:
        self.sock: socket.socket = process.sock
        self._process = process
        self._finalizer = weakref.finalize(self, _End(process, bury))
        _workers.add(self)

    @property
    def pid(self) -> int:
        """The process id as the host sees it."""
        return self._process.pid

    @property
    def workspace(self) -> Workspace | None:
        """Its directory, for a program that has one."""
        return self._process.workspace

    @property
    def bell(self) -> Bell | None:
        """What is rung when it has been sent a request, for a program that listens."""
        return self._process.bell

    def take_network(self) -> NetworkSockets | None:
        """The sockets of its network, for a program that has one; they are the caller's then."""
        return self._process.network()

    def freeze(self) -> None:
        """Stops it, with all of its threads, until `thaw`."""
        if self._finalizer.alive:
            self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        if self._finalizer.alive:
            self._process.signal(signal.SIGCONT)

    def interrupt(self) -> None:
        """V8 cannot be stopped half-way and go on in the state before: the same as `kill`."""
        self.kill()

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        if self._finalizer.alive:
            self._process.kill()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._finalizer.alive and self._process.poll() is None

    @property
    def hung_up(self) -> bool:
        """Whether its end of the socket is closed: known before its death is."""
        try:
            return self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def ran_out_of_memory(self) -> bool:
        """After the stream has ended: whether the process died in the way that it does then."""
        return self._finalizer.alive and self._process.wait(_END) in _FATAL

    def status(self, timeout: float) -> int:
        """Its exit status (128 + n for signal n); it is killed when it has not ended within so many seconds. 0 after `close`."""
        return self._process.wait(timeout) if self._finalizer.alive else 0

    def close(self) -> None:
        """Kills it; its end is waited for in the background. Idempotent."""
        self._finalizer()

    def forget(self) -> None:
        """In a forked copy of the host: closes what was inherited; the process is the parent's."""
        if self._finalizer.detach() is not None:
            self._process.forget()


class _End:
    """What becomes of a worker's process, apart from the worker so that it can outlive it."""

    def __init__(self, process: Process, bury: Callable[[Process], None]) -> None:
        self.process = process
        self.bury = bury
        self.owner = os.getpid()

    def __call__(self) -> None:
        if self.owner != os.getpid():
            self.process.forget()
            return
        self.process.kill()
        self.process.sock.close()
        self.bury(self.process)


_workers: weakref.WeakSet[DenoWorker] = weakref.WeakSet()


def forget_all() -> None:
    """Runs in a forked child of the host."""
    for worker in list(_workers):
        worker.forget()
