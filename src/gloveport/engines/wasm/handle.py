"""The host's hold on one worker."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Final

__all__ = ("Worker", "forget_all", "memory_page")

PAGE: Final = 4096
_SEALS: Final = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW

_F_ADD_SEALS: Final = 1033


def memory_page() -> int:
    """A memory file of one page whose size nobody can change. Gives its descriptor."""
    import fcntl

    fd = os.memfd_create("interrupt", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, PAGE)
    fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    return fd


class _Hold:
    """The descriptors of one worker, apart from `Worker` so that they can outlive it by a finalizer."""

    __slots__ = ("__weakref__", "lock", "on_close", "owner", "page", "pidfd", "sock", "whole")

    def __init__(
        self, sock: socket.socket, pidfd: int, page: int, whole: bool, on_close: Callable[[], None] | None
    ) -> None:
        self.sock = sock
        self.pidfd = pidfd
        self.page = page
        self.whole = whole
        self.on_close = on_close
        self.owner = os.getpid()
        self.lock = threading.Lock()

    def interrupt(self, value: bytes) -> None:
        # A write to the memory file, not to a mapping of it: it costs one system call, no descriptor more, and cannot fault.
        with self.lock:
            if self.page >= 0:
                os.pwrite(self.page, value, 0)

    def kill(self) -> None:
        with self.lock:
            self._kill()

    def _kill(self) -> None:
        if self.pidfd < 0 or self.owner != os.getpid():
            return
        if not self.whole:
            # Its siblings live in the same process: stop the guest and end the stream.
            os.pwrite(self.page, b"\1", 0)
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other end is gone already
            return
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def alive(self) -> bool:
        with self.lock:
            if self.pidfd < 0:
                return False
            poll = select.poll()
            poll.register(self.pidfd, select.POLLIN)
            if poll.poll(0):
                return False
            if self.whole:
                return True
            stream = select.poll()
            stream.register(self.sock, select.POLLHUP)
            return not any(event & (select.POLLHUP | select.POLLERR) for _, event in stream.poll(0))

    def dispose(self) -> None:
        with self.lock:
            if self.pidfd < 0:
                return
            self._kill()
            self._close()
        if self.on_close is not None and self.owner == os.getpid():
            self.on_close()

    def forget(self) -> None:
        """In a forked copy of the host: closes what was inherited and touches nothing that the copies share."""
        self.lock = threading.Lock()  # another thread may have held the old one
        self.on_close = None
        if self.pidfd >= 0:
            self._close()

    def _close(self) -> None:
        # The numbers first: a copy of this process, forked now, must not close what has them by then.
        pidfd, page, self.pidfd, self.page = self.pidfd, self.page, -1, -1
        os.close(pidfd)
        os.close(page)
        self.sock.close()


_holds: weakref.WeakSet[_Hold] = weakref.WeakSet()


def forget_all() -> None:
    """Runs in a forked child of the host."""
    for hold in list(_holds):
        hold.forget()


class Worker:
    """One jailed worker, or (`shared`) one session of a worker for many. Any thread may use it.

    `sock` is a connected blocking stream socket that speaks `wire/PROTOCOL.md`; it ends when the worker does. An instance that is dropped
    takes its worker along, and so does the end of the interpreter. In a forked copy of the host it is closed.
    """

    __slots__ = ("__weakref__", "_finalizer", "_hold", "_pid", "shared", "sock")

    def __init__(
        self,
        sock: socket.socket,
        pidfd: int,
        page: int,
        *,
        shared: bool = False,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.sock: Final = sock
        self.shared: Final = shared
        """Whether other sessions live in the same process."""
        self._pid = 0
        self._hold = _Hold(sock, pidfd, page, not shared, on_close)
        _holds.add(self._hold)
        self._finalizer = weakref.finalize(self, self._hold.dispose)

    @property
    def pidfd(self) -> int:
        """A descriptor of the process (readable once it ended); -1 after `close`."""
        return self._hold.pidfd

    @property
    def pid(self) -> int:
        """The process id as the host sees it; 0 when it is not known any more."""
        if not self._pid and self._hold.pidfd >= 0:
            with open(f"/proc/self/fdinfo/{self._hold.pidfd}", encoding="ascii") as lines:
                self._pid = max(0, next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), 0))
        return self._pid

    def fileno(self) -> int:
        """The descriptor of `sock`; -1 after `close`."""
        return self.sock.fileno()

    def interrupt(self) -> None:
        """Asks the running guest to stop: its reply then says `interrupted`. One system call, never blocks, nothing after `close`."""
        self._hold.interrupt(b"\1")

    def clear_interrupt(self) -> None:
        """Takes an interrupt back that came too late, before the next request."""
        self._hold.interrupt(b"\0")

    def kill(self) -> None:
        """Ends the worker at once (SIGKILL). One session of a shared worker: interrupts the guest and ends the stream."""
        self._hold.kill()

    @property
    def alive(self) -> bool:
        """Whether the process runs; for a shared worker also whether this session's stream is open."""
        return self._hold.alive()

    def close(self) -> None:
        """Kills the worker and closes every descriptor. Idempotent."""
        self._finalizer()

    def __repr__(self) -> str:
        state = "closed" if self._hold.pidfd < 0 else f"pid {self.pid}"
        return f"<{'shared ' if self.shared else ''}Worker {state}>"
