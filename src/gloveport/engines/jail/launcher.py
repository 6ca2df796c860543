"""The process that jails itself and then becomes a trusted program. Started by `command.spawn_jailed`, never by hand."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from typing import Any, Final, NoReturn

from gloveport.engines.jail import descriptors, enter, filters, landlock, network, selftest, syscalls
from gloveport.engines.jail.keeper import keep
from gloveport.engines.jail.layers import LAYERS
from gloveport.engines.jail.probes import Surroundings

__all__ = ("SCRATCH", "main")

SCRATCH: Final = "/.scratch"
"""The private directory of the program, when it has one."""

_DEVICES: Final = ("/dev/null", "/dev/urandom")
_OWN_MAPS: Final = "/proc/self/maps"
"""The one file of `/proc` that a program keeps, and only its own: the C library finds the main thread's stack there
(pthread_getattr_np(3)), and Deno's type stripper panics without it at the first `if` of a source (seen with deno 2.9.8)."""
_MAX_FILE: Final = 1024 * 1024 * 1024
"""Bytes of one file that a program may write."""
_CLOSE_RANGE_CLOEXEC: Final = 4
_ADDRESSES: Final = 256 * 1024**3
"""Bytes of addresses that a program may reserve: Deno takes 40 GiB, and 10 more for each WebAssembly memory. The tables of pages
that are only read are memory that nothing else counts: a five-hundredth of this."""
_ALL_LAYERS: Final = frozenset(layer.name for layer in LAYERS)


def main(arguments: list[str]) -> None:
    """`arguments`: control socket, host's pidfd, stdin, stdout. Takes what to do from the control socket as one JSON packet."""
    control_fd, host, stdin, stdout = map(int, arguments)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=control_fd)
    order: dict[str, Any] = json.loads(control.recv(1 << 20))
    sandbox: str = order["sandbox"]
    way_out = _WayOut()
    profile = _profile(order, way_out)
    os.environ.clear()
    leave_out = _ALL_LAYERS if sandbox == "off" else frozenset[str]()
    entered = enter.enter(profile, lambda pid: _keeper(pid, host, control), seed=os.getpid(), leave_out=leave_out)
    if profile.network is not None:
        way_out.hand_over(control, entered.watcher)
    able: list[str] = []
    if sandbox != "off":
        aim = Surroundings(order["host"], control_fd, frozenset({0, 1, 2, control_fd, host, stdin, stdout}))
        able = selftest.possible(aim, expected=selftest.CONNECTED if profile.network else selftest.EXECUTED)
    greeting = {"missing": entered.missing, "possible": able, "landlock_abi": entered.landlock_abi}
    control.send(b"H" + json.dumps(greeting).encode())
    if control.recv(1) != b"g":
        os._exit(0)
    try:
        _become(order, stdin, stdout, mounted=not any(each.layer == "root" for each in entered.missing))
    except OSError as error:
        control.send(b"E" + str(error).encode())
    os._exit(127)


class _WayOut:
    """The sockets of the jail's network, made inside of it and given to the host."""

    def __init__(self) -> None:
        self.sockets: network.NetworkSockets | None = None
        self.why = "there is no network namespace"

    def open(self) -> None:
        try:
            self.sockets = network.open_sockets()
        except OSError as error:
            self.why = str(error)

    def hand_over(self, control: socket.socket, watcher: int) -> None:
        if self.sockets is None:
            control.send(b"N" + self.why.encode())
            return
        self.sockets.watcher = watcher
        descriptors.send(control, b"W" if watcher >= 0 else b"N", tuple(self.sockets.descriptors()))
        self.sockets.close()


def _become(order: dict[str, Any], stdin: int, stdout: int, *, mounted: bool) -> NoReturn:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.dup2(null, 2)
    if syscalls.attempt("close_range", 3, 0x7FFF_FFFF, _CLOSE_RANGE_CLOEXEC) < 0:  # before Linux 5.11
        for fd in range(3, 1 << 20):  # numbers are the host's, which may have thousands of descriptors open
            try:
                os.set_inheritable(fd, False)
            except OSError:
                continue
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and an ignored signal stays so
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(order["directory"])
    except FileNotFoundError:  # it is a mount, and the layer that makes those is missing
        os.chdir("/")
    inside: dict[str, str] = _inside(order) if mounted else {}
    words: list[str] = order["argv"]
    argv = [inside.get(word, word) for word in words]
    os.execve(argv[0], argv, order["environment"])  # noqa: S606  (no shell, on purpose)


def _keeper(pid: int, host: int, control: socket.socket) -> NoReturn:
    # Only here, outside of the jail, is the program's process id the one that the host knows.
    pidfd = os.pidfd_open(pid)
    descriptors.send(control, b"P%d" % pid, (pidfd,))
    os.close(pidfd)
    keep(pid, host)


def _inside(order: dict[str, Any]) -> dict[str, str]:
    """Paths in the jail of what is mounted, by paths outside."""
    mounts: dict[str, str] = order["mounts"]
    return {there: here for here, there in mounts.items()}


def _profile(order: dict[str, Any], way_out: _WayOut) -> enter.Profile:
    program: str = order["argv"][0]
    loader: str | None = order["loader"]
    libraries: list[str] = order["libraries"]
    readable: list[str] = order["readable"]
    mounts: dict[str, str] = order["mounts"]
    writable: dict[str, str] = order["writable"]
    scratch: int = order["scratch_bytes"]
    inside = _inside(order)
    programs = [inside.get(program, program)]
    programs += [loader] if loader else []
    rights = [landlock.Rule(path, landlock.EXECUTE) for path in programs]
    rights += [landlock.Rule(path, landlock.EXECUTE) for path in {program} - set(programs)]
    rights += [landlock.Rule(path, landlock.READ) for path in (*libraries, *readable, *mounts, _OWN_MAPS)]
    rights += [landlock.Rule(path, landlock.READ) for path in mounts.values() if os.path.isfile(path)]
    rights += [landlock.Rule(path, landlock.READ | landlock.WRITE) for path in _DEVICES]
    rights += [landlock.Rule(path, landlock.READ | landlock.WRITE) for path in writable]
    if scratch:
        rights.append(landlock.Rule(SCRATCH, landlock.READ | landlock.WRITE))
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, max(scratch, _MAX_FILE if writable else 0)),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NPROC, 256),
    ]
    if order["memory_bytes"]:
        limits += [(resource.RLIMIT_DATA, order["memory_bytes"]), (resource.RLIMIT_AS, _ADDRESSES)]
    unmounted = (path for path in programs if path not in mounts)
    shown = dict.fromkeys((*unmounted, *libraries, *readable, *_DEVICES, _OWN_MAPS))
    files = network.FILES if order["network"] else ()
    rights += [landlock.Rule(path, landlock.READ) for path, _ in files]
    return enter.Profile(
        "program",
        filters.connected if order["network"] else filters.executed,
        rights=rights,
        readable=tuple(shown),
        mounts=tuple(mounts.items()),
        writable=tuple(writable.items()),
        links=(("/proc/self/exe", programs[0]),),  # programs look here for themselves
        scratch=SCRATCH,
        scratch_bytes=scratch,
        limits=limits,
        files=files,
        network=way_out.open if order["network"] else None,
        watched=order["network"] and order["watched"],
    )
