"""The zygote: a trusted process that loads everything once, jails itself, and forks workers that are ready before they are wanted.

It never runs guest code and never reads what a worker writes, apart from one byte that the worker sends before any guest code ran.
What it says to the host, over a `SOCK_SEQPACKET` socket, one packet each:

    H + JSON, [pidfd of the zygote]                  first: what the jail lacks, and what the self-test could do
    E + text                                         it cannot go on
    W, [socket, pidfd, memory file of one page]      a worker that is ready

and the host to it: any of `+` (one worker was taken: make another), `!` (someone waits: do not delay), or `G`, [socket]: fork a worker for
many sessions, which takes `[socket, memory file]` of each of them over that socket (`shared.py`).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import time
from typing import Any, Final, NoReturn, Protocol

from gloveport.engines.jail import descriptors, enter, filters, selftest, syscalls
from gloveport.engines.jail.keeper import keep
from gloveport.engines.jail.layers import LAYERS
from gloveport.engines.jail.probes import Surroundings
from gloveport.engines.wasm import shared
from gloveport.engines.wasm.worker import GuestLike, serve
from gloveport.errors import EngineUnavailableError

__all__ = ("PAGE", "Guests", "main")

PAGE: Final = 4096
"""Bytes of the page through which the host interrupts a worker."""

_DELAY: Final = 0.003
"""Seconds between a take and the fork of its replacement, so that on two processors the fork does not race the taken worker's first run."""

_IN_FLIGHT: Final = 2
_PATIENCE: Final = 5
"""Workers in a row that may die before they are ready."""

_PR_SET_PDEATHSIG: Final = 1
_SEALS: Final = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_PRACTICE: Final = struct.pack("<IBQIBB", 9, ord("C"), 64 << 20, 2, ord("S"), ord("G"))
"""A configuration, and the request to collect garbage."""
_F_GETFL: Final = 3
_F_GET_SEALS: Final = 1034
_IMAGE_SEALS: Final = 0x2 | 0x4 | 0x8  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE (which wasmtime 50 puts on its images)
_ALL_LAYERS: Final = frozenset(layer.name for layer in LAYERS)


class Guests(Protocol):
    """What the function named by the pool gives: makes instances, and knows how to have one ready."""

    def __call__(self) -> GuestLike: ...
    def rehearse(self, guest: Any, /) -> None: ...
    def warm(self, guest: Any, /) -> None: ...


def main(arguments: list[str]) -> None:
    """Entry of the process.

    `arguments`: control descriptor, host's pidfd, sandbox mode, number of spares, `module:function` that loads the guest.
    """
    control_fd, host, sandbox, spares, guests = arguments
    before = _descriptors()
    module, _, function = guests.partition(":")
    make: Guests = getattr(importlib.import_module(module), function)()
    guest = make()
    make.rehearse(guest)
    base = _private_bytes()
    keep_open = _descriptors() - before
    _check_images(keep_open)
    _erase_environment()
    gc.collect()
    leave_out = _ALL_LAYERS if sandbox == "off" else frozenset[str]()
    host_fd = int(host)
    entered = enter.enter(enter.WORKERS, lambda pid: keep(pid, host_fd), seed=os.getpid(), leave_out=leave_out)
    filters.worker()  # assembled (and remembered) once, not in every fork
    filters.shared_worker()
    os.dup2(0, 2, inheritable=False)  # dup3, which the filter knows
    gc.collect()
    gc.freeze()
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=int(control_fd))
    nursery = _Nursery(control, host_fd, int(spares), make, guest, keep_open, base, {m.layer for m in entered.missing})
    nursery.greet(entered, sandbox)
    nursery.run()


def _descriptors() -> set[int]:
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    return {fd for fd in found if syscalls.attempt("fcntl", fd, 1) >= 0}  # without the one that listed them


def _check_images(fds: set[int]) -> None:
    """What workers share must not be theirs to change: one would write into the fresh memory of all that come after it."""
    for fd in fds:
        writable = syscalls.attempt("fcntl", fd, _F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        sealed = syscalls.attempt("fcntl", fd, _F_GET_SEALS)
        if writable and (sealed < 0 or sealed & _IMAGE_SEALS != _IMAGE_SEALS):
            raise EngineUnavailableError(
                f"the guest holds {os.readlink(f'/proc/self/fd/{fd}')} open, which workers could change"
            )


def _private_bytes() -> int:
    """What `RLIMIT_DATA` counts: private writable memory."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:")), 0)


def _erase_environment() -> None:
    """Removes the environment, and the copy of it that the kernel put on the stack."""
    os.environ.clear()
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])  # env_start, env_end: proc(5) fields 50 and 51
    if start and end > start:
        ctypes.memset(start, 0, end - start)


class _Nursery:
    def __init__(
        self,
        control: socket.socket,
        host: int,
        spares: int,
        make: Guests,
        guest: GuestLike,
        keep_open: set[int],
        base: int,
        missing: set[str],
    ) -> None:
        self.control = control
        self.host = host
        self.owed = spares
        self.make = make
        self.guest = guest
        self.keep_open = keep_open
        self.base = base
        self.missing = missing
        self.zygote = os.getpid()
        self.due = 0.0
        self.failures = 0
        self.unready: dict[int, tuple[socket.socket, int, int]] = {}
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.poll.register(host, select.POLLIN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps

    def greet(self, entered: enter.Entered, sandbox: str) -> None:
        able = self.test() if sandbox != "off" else []
        greeting = {"missing": entered.missing, "possible": able, "landlock_abi": entered.landlock_abi}
        own = os.pidfd_open(self.zygote)
        descriptors.send(self.control, b"H" + json.dumps(greeting).encode(), (own,))
        os.close(own)

    def test(self) -> list[str]:
        """The self-test in a child that is jailed like every worker."""
        here, there = socket.socketpair()
        if os.fork() == 0:
            try:
                channel = self.into_child(there, filters.worker())
                aim = Surroundings(self.zygote, channel, frozenset({0, 1, 2, channel} | self.keep_open))
                there.sendall(json.dumps(selftest.possible(aim)).encode() + b"\n")
            finally:
                os._exit(0)
        there.close()
        text = b""
        while more := here.recv(65536):
            text += more
        here.close()
        if not text.endswith(b"\n"):
            return ["the self-test itself (it did not finish)"]
        return json.loads(text)

    def run(self) -> NoReturn:
        while True:
            timeout = None
            if self.owed and len(self.unready) < _IN_FLIGHT:
                wait = self.due - time.monotonic()
                if wait <= 0:
                    self.fork_spare()
                    continue
                timeout = wait * 1000
            for fd, _ in self.poll.poll(timeout):
                if fd == self.host:
                    os._exit(0)
                elif fd in self.unready:
                    self.deliver(fd)
                else:
                    self.obey()

    def obey(self) -> None:
        try:
            words, fds = descriptors.receive(self.control, 16, 1)
        except descriptors.NoRoom as error:
            words, fds = error.data, []
        except ConnectionError:
            words, fds = b"", []
        if not words:
            os._exit(0)
        taken = words.count(b"+")
        self.owed += taken
        if taken:
            self.due = time.monotonic() + _DELAY
        if b"!" in words:
            self.due = 0.0
        for fd in fds:
            if b"G" in words:
                self.fork_shared(fd)
            os.close(fd)

    # ── children ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def fork_spare(self) -> None:
        self.owed -= 1
        here, there = socket.socketpair()
        page = os.memfd_create("interrupt", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(page, PAGE)
        # The host writes to this page: a worker that could shrink it could make that write a fatal signal.
        syscalls.call("fcntl", page, 1033, _SEALS)
        try:
            pid = os.fork()
        except OSError:
            here.close()
            there.close()
            os.close(page)
            self.failed()
            return
        if pid == 0:
            self.worker(there, page)
        there.close()
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # it died, and was reaped, at once
            here.close()
            os.close(page)
            self.failed()
            return
        self.unready[here.fileno()] = (here, pidfd, page)
        self.poll.register(here, select.POLLIN)

    def worker(self, sock: socket.socket, page: int) -> NoReturn:
        try:
            self.guest.share_flag(page)
            os.close(page)
            self.practise()
            self.into_child(sock, filters.worker())
            sock.sendall(b"r")
            serve(sock, self.guest, data_base=self.base)
        finally:
            os._exit(0)

    def practise(self) -> None:
        """Walks the path of a request once, so that the memory it writes is this process's own before a session waits for it."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(_PRACTICE)
            ours.shutdown(socket.SHUT_WR)
            serve(theirs, self.guest)
        self.guest.reset()
        self.make.warm(self.guest)

    def fork_shared(self, channel: int) -> None:
        try:
            pid = os.fork()
        except OSError:
            return  # the host sees the end of the stream
        if pid == 0:
            try:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=channel)
                own = os.pidfd_open(os.getpid())
                descriptors.send(sock, b"r", (own,))
                os.close(own)
                self.into_child(sock, filters.shared_worker())
                shared.serve_group(sock, self.make)
            finally:
                os._exit(0)

    def into_child(self, sock: socket.socket, program: bytes) -> int:
        """What makes a fork of the zygote a worker: it dies with it, holds one socket, and is jailed further. Gives the socket's number."""
        syscalls.call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.zygote:
            os._exit(0)
        descriptors.close_others({0, 1, 2, sock.fileno()} | self.keep_open)
        with_landlock, with_seccomp = "landlock" not in self.missing, "seccomp" not in self.missing
        enter.harden_child(program, with_landlock=with_landlock, with_seccomp=with_seccomp)
        return sock.fileno()

    def deliver(self, fd: int) -> None:
        here, pidfd, page = self.unready.pop(fd)
        self.poll.unregister(fd)
        try:
            ready = here.recv(1) == b"r"
            if ready:
                descriptors.send(self.control, b"W", (fd, pidfd, page))
                self.failures = 0
        except ConnectionError:
            ready = False
        here.close()
        os.close(pidfd)
        os.close(page)
        if not ready:
            self.failed()

    def failed(self) -> None:
        self.owed += 1
        self.failures += 1
        self.due = time.monotonic() + 0.02 * self.failures
        if self.failures >= _PATIENCE:
            self.control.send(b"E" + f"{self.failures} workers in a row died before they were ready".encode())
            os._exit(1)
