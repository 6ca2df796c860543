"""The forbidden things that a worker tries after it was jailed, each for real.

A probe gives `True` when the thing is **possible**. Arguments are chosen so that a success harms nobody: signal 0, a priority set to what
it is, an object that is removed again, or an argument that the kernel only rejects after it has granted the right.
"""

from __future__ import annotations

import array
import ctypes
import os
import signal
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from gloveport.engines.jail import namespaces, syscalls
from gloveport.engines.jail.syscalls import attempt

__all__ = ("PROBES", "Probe", "Surroundings")

_REFUSALS: Final = frozenset({1, 13, 38})
"""`EPERM`, `EACCES`, `ENOSYS`: the right itself was refused. Any other error came from the arguments."""
_UNSEEN: Final = _REFUSALS | {3}
"""With `ESRCH`: the process is not visible."""
_ABSENT: Final = _REFUSALS | {2}
"""With `ENOENT`: the file is not reachable."""
_AT_FDCWD: Final = -100
_POLLNVAL: Final = 0x20
_DESCRIPTORS: Final = 8192


class Surroundings(NamedTuple):
    """What the probes aim at."""

    victim: int
    """Another process: the parent."""
    channel: int
    """A socket of this process."""
    descriptors: frozenset[int]
    """The descriptors that it should have."""


class Probe(NamedTuple):
    """`possible` tries it."""

    name: str
    possible: Callable[[Surroundings], bool]


def _granted(result: int, refusals: frozenset[int] = _REFUSALS, *, descriptor: bool = False) -> bool:
    if descriptor and result >= 0:
        os.close(result)
    return result >= 0 or -result not in refusals


def _syscall(
    name: str, *arguments: syscalls.Argument, refusals: frozenset[int] = _REFUSALS, descriptor: bool = False
) -> Probe:
    def possible(_: Surroundings) -> bool:
        return _granted(attempt(name, *arguments), refusals, descriptor=descriptor)

    return Probe(name, possible)


def _file(name: str, call: str, *arguments: syscalls.Argument) -> Probe:
    def possible(_: Surroundings) -> bool:
        return _granted(attempt(call, *arguments), _ABSENT, descriptor=call.startswith("open"))

    return Probe(name, possible)


def _on_victim(
    name: str, call: str, arguments: Callable[[int], tuple[syscalls.Argument, ...]], *, descriptor: bool = False
) -> Probe:
    def possible(surroundings: Surroundings) -> bool:
        return _granted(attempt(call, *arguments(surroundings.victim)), _UNSEEN, descriptor=descriptor)

    return Probe(name, possible)


def _socket(family: int, kind: int) -> Callable[[Surroundings], bool]:
    def probe(_: Surroundings) -> bool:
        return _granted(attempt("socket", family, kind, 0), descriptor=True)

    return probe


def _device(_: Surroundings) -> bool:
    """Whether a device other than the namespace's own loopback is up, or has an address (the numbers of devices have no end):
    SIOCGIFCONF, SIOCGIFNAME and SIOCGIFFLAGS, netdevice(7)."""
    fd = attempt("socket", 2, 2, 0)
    if fd < 0:
        return False
    try:
        return _has_address(fd) or any(_is_up(fd, index) for index in range(1, 65))
    finally:
        os.close(fd)


def _has_address(fd: int) -> bool:
    found = ctypes.create_string_buffer(40 * 16)
    request = ctypes.create_string_buffer(struct.pack("ixxxxQ", len(found), ctypes.addressof(found)), 16)
    if attempt("ioctl", fd, 0x8912, request) < 0:
        return False
    size: int = struct.unpack_from("i", request.raw)[0]
    return any(found.raw[at : at + 16].rstrip(b"\0") != b"lo" for at in range(0, size, 40))


def _is_up(fd: int, index: int) -> bool:
    request = ctypes.create_string_buffer(bytes(16) + struct.pack("i", index), 40)
    if attempt("ioctl", fd, 0x8910, request) < 0 or request.raw[:16].rstrip(b"\0") == b"lo":
        return False  # tunnels that the kernel puts into every namespace are there, but down
    named = ctypes.create_string_buffer(request.raw[:16], 40)
    return attempt("ioctl", fd, 0x8913, named) < 0 or bool(struct.unpack_from("h", named.raw, 16)[0] & 1)


def _queued_signal(pid: int) -> tuple[syscalls.Argument, ...]:
    return pid, 0, bytes(8) + struct.pack("i", -1) + bytes(116)  # si_code SI_QUEUE


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _child(call: str) -> Callable[[Surroundings], bool]:
    def probe(_: Surroundings) -> bool:
        pid = attempt(call, 17, 0) if call == "clone" else attempt(call)
        if pid == 0:
            attempt("exit_group", 0)
        if pid > 0:
            os.waitpid(pid, 0)
        return _granted(pid)

    return probe


def _thread(_: Surroundings) -> bool:
    # CLONE_THREAD without CLONE_SIGHAND is an error of the arguments: EINVAL, once the call itself is let through.
    return _granted(attempt("clone", 0x0001_0000, 0))


def _affinity(s: Surroundings) -> bool:
    mask = ctypes.create_string_buffer(128)
    size = attempt("sched_getaffinity", s.victim, 128, mask)
    if size <= 0:
        return _granted(size, _UNSEEN)
    return _granted(attempt("sched_setaffinity", s.victim, size, mask), _UNSEEN)


def _read_memory(s: Surroundings) -> bool:
    here = ctypes.create_string_buffer(8)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(here), 8), 16)
    return _granted(attempt("process_vm_readv", s.victim, vector, 1, vector, 1, 0), _UNSEEN)


def _priority(s: Surroundings) -> bool:
    nice = attempt("getpriority", 0, s.victim)  # the kernel's own form: 20 - nice
    return _granted(attempt("setpriority", 0, s.victim, 20 - nice) if nice > 0 else nice, _UNSEEN)


# ── signals without kill ─────────────────────────────────────────────────────────────────────────────────────────────


def _owner(s: Surroundings) -> bool:
    result = attempt("fcntl", s.channel, 8, s.victim)
    if result >= 0:
        attempt("fcntl", s.channel, 8, 0)
    return _granted(result, _UNSEEN)


def _owner_extended(s: Surroundings) -> bool:
    result = attempt("fcntl", s.channel, 15, ctypes.create_string_buffer(struct.pack("ii", 1, s.victim), 8))
    if result >= 0:
        attempt("fcntl", s.channel, 8, 0)
    return _granted(result, _UNSEEN)


def _owner_signal(s: Surroundings) -> bool:
    result = attempt("fcntl", s.channel, 10, 9)
    if result >= 0:
        attempt("fcntl", s.channel, 10, 0)
    return _granted(result)


def _asynchronous(s: Surroundings) -> bool:
    flags = attempt("fcntl", s.channel, 3)
    result = attempt("fcntl", s.channel, 4, flags | 0x2000) if flags >= 0 else flags
    if result >= 0:
        attempt("fcntl", s.channel, 4, flags)
    return _granted(result)


def _ioctl_owner(request: int) -> Callable[[Surroundings], bool]:
    def probe(s: Surroundings) -> bool:
        result = attempt("ioctl", s.channel, request, ctypes.create_string_buffer(struct.pack("i", s.victim), 4))
        if result >= 0:
            attempt("fcntl", s.channel, 8, 0)
        return _granted(result, _UNSEEN)

    return probe


# ── memory and objects ───────────────────────────────────────────────────────────────────────────────────────────────


def _executable_mapping(_: Surroundings) -> bool:
    address = attempt("mmap", 0, 4096, 1 | 4, 0x22, -1, 0)
    if address > 0:
        attempt("munmap", address, 4096)
    return _granted(address)


def _shared_mapping(_: Surroundings) -> bool:
    address = attempt("mmap", 0, 4096, 1 | 2, 0x21, -1, 0)
    if address > 0:
        attempt("munmap", address, 4096)
    return _granted(address)


def _make_executable(call: str) -> Callable[[Surroundings], bool]:
    def probe(_: Surroundings) -> bool:
        address = attempt("mmap", 0, 4096, 1 | 2, 0x22, -1, 0)
        result = attempt(call, address, 4096, 1 | 4, -1)
        attempt("munmap", address, 4096)
        return _granted(result)

    return probe


def _segment(call: str, remove: str) -> Callable[[Surroundings], bool]:
    def probe(_: Surroundings) -> bool:
        key = attempt(call, 0, 0o600) if call == "msgget" else attempt(call, 0, 1, 0o600)
        if key >= 0:
            attempt(remove, key, *((0, 0) if call == "semget" else (0,)))
        return _granted(key)

    return probe


def _queue(_: Surroundings) -> bool:
    result = attempt("mq_open", b"gloveport-probe\0", 0o102, 0o600, None)
    if result >= 0:
        os.close(result)
        attempt("mq_unlink", b"gloveport-probe\0")
    return _granted(result)


def _memory_file(_: Surroundings) -> bool:
    fd = attempt("memfd_create", b"probe\0", 0)
    if fd < 0:
        return _granted(fd)
    result = attempt("execveat", fd, b"\0", None, None, 0x1000)  # an empty file: ENOEXEC, once the call is let through
    os.close(fd)
    return _granted(result)


# ── what was inherited ───────────────────────────────────────────────────────────────────────────────────────────────


def _death_signal(_: Surroundings) -> bool:
    return _granted(attempt("prctl", 1, signal.SIGKILL))  # PR_SET_PDEATHSIG, as it is


def _environment(_: Surroundings) -> bool:
    first = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value
    return bool(os.environ) or bool(first and ctypes.c_void_p.from_address(first).value)


def _descriptors(s: Surroundings) -> bool:
    """Asks `ppoll` about many at once: of one that is closed it says POLLNVAL. A `struct pollfd` is a 64-bit number here."""
    count = 128  # not above RLIMIT_NOFILE
    for first in range(0, _DESCRIPTORS, count):
        asked = array.array("q", range(first, first + count))
        buffer = ctypes.create_string_buffer(asked.tobytes(), 8 * count)
        if attempt("ppoll", buffer, count, bytes(16), None, 8) < 0:
            return any(attempt("fcntl", fd, 1) >= 0 for fd in range(_DESCRIPTORS) if fd not in s.descriptors)
        told = array.array("q", buffer.raw)
        if any(told[i] >> 48 != _POLLNVAL for i in range(count) if first + i not in s.descriptors):
            return True
    return False


def _host_name(_: Surroundings) -> bool:
    name = ctypes.create_string_buffer(6 * 65)  # struct utsname, whose second text is the host's name: uname(2)
    if attempt("uname", name) < 0:
        return False
    return name.raw[65:130].rstrip(b"\0") != namespaces.HOST_NAME.encode()


PROBES: Final = (
    _file("open a file of the host", "openat", _AT_FDCWD, b"/etc/passwd\0", 0),
    _file("open2 a file of the host", "openat2", _AT_FDCWD, b"/etc/passwd\0", bytes(24), 24),
    _file("stat a file of the host", "newfstatat", _AT_FDCWD, b"/etc/passwd\0", bytes(256), 0),
    _file("statx a file of the host", "statx", _AT_FDCWD, b"/etc/passwd\0", 0, 0x7FF, bytes(256)),
    _file("list the root directory", "openat", _AT_FDCWD, b"/\0", os.O_DIRECTORY),
    _file("read the process's environment file", "openat", _AT_FDCWD, b"/proc/self/environ\0", 0),
    _file("name a file handle", "name_to_handle_at", _AT_FDCWD, b"/\0", bytes(136), bytes(8), 0),
    _syscall("memfd_create", b"probe\0", 1, descriptor=True),
    _syscall("socket", 2, 1, 0, descriptor=True),
    Probe("unix socket", _socket(1, 1)),
    Probe("netlink socket", _socket(16, 3)),
    Probe("raw socket", _socket(2, 3)),
    Probe("packet socket", _socket(17, 3)),
    Probe("socket to the hypervisor", _socket(40, 1)),
    Probe("see a network device", _device),
    _syscall("socketpair", 1, 1, 0, None),
    _syscall("connect", -1, bytes(16), 16),
    _syscall("bind", -1, bytes(16), 16),
    _syscall("listen", -1, 1),
    _syscall("accept", -1, None, None),
    _syscall("accept4", -1, None, None, 0),
    _syscall("execve", b"/nonexistent\0", None, None),
    _syscall("execveat", -1, b"\0", None, None, 0x1000),
    Probe("execute from memory", _memory_file),
    Probe("fork", _child("fork")),
    Probe("clone", _child("clone")),
    Probe("start a thread", _thread),
    _syscall("clone3", None, 0),
    _on_victim("ptrace", "ptrace", lambda pid: (0x4206, pid, 0, 0)),
    Probe("read another process's memory", _read_memory),
    _on_victim("signal another process", "kill", lambda pid: (pid, 0)),
    _syscall("kill", -1, 0, refusals=_UNSEEN),
    _on_victim("tgkill", "tgkill", lambda pid: (pid, pid, 0)),
    _on_victim("tkill", "tkill", lambda pid: (pid, 0)),
    _on_victim("rt_sigqueueinfo", "rt_sigqueueinfo", _queued_signal),
    _on_victim("pidfd_open", "pidfd_open", lambda pid: (pid, 0), descriptor=True),
    _syscall("pidfd_send_signal", -1, 0, None, 0),
    _syscall("pidfd_getfd", -1, 0, 0),
    _syscall("process_madvise", -1, None, 0, 4, 0),
    _on_victim("compare kernel objects", "kcmp", lambda pid: (pid, pid, 0, 0, 0)),
    Probe("own a descriptor's signals: F_SETOWN", _owner),
    Probe("own a descriptor's signals: F_SETOWN_EX", _owner_extended),
    Probe("choose a descriptor's signal: F_SETSIG", _owner_signal),
    Probe("ask for a descriptor's signals: O_ASYNC", _asynchronous),
    Probe("own a descriptor's signals: FIOSETOWN", _ioctl_owner(0x8901)),
    Probe("own a descriptor's signals: SIOCSPGRP", _ioctl_owner(0x8902)),
    Probe("shared memory segments", _segment("shmget", "shmctl")),
    Probe("semaphores", _segment("semget", "semctl")),
    Probe("System V message queues", _segment("msgget", "msgctl")),
    Probe("POSIX message queues", _queue),
    _on_victim("another process's limits", "prlimit64", lambda pid: (pid, 7, 0, ctypes.create_string_buffer(16))),
    Probe("another process's processors", _affinity),
    Probe("another process's priority", _priority),
    _on_victim("another process's group", "getpgid", lambda pid: (pid,)),
    _on_victim("another process's input/output priority", "ioprio_get", lambda pid: (1, pid)),
    _on_victim("another process's robust list", "get_robust_list", lambda pid: (pid, bytes(8), bytes(8))),
    _syscall("setpgid", 0, 0),
    _syscall("fsopen", b"tmpfs\0", 1, descriptor=True),
    _syscall("open_tree", _AT_FDCWD, b"/\0", 1, descriptor=True),
    _syscall("umount2", b"/\0", 4 | 2),  # MNT_EXPIRE with MNT_DETACH is invalid, but only after the right was granted
    _syscall("mount", None, b"/\0", None, 0x40000, None),
    _syscall("pivot_root", b"/nonexistent\0", b"/nonexistent\0"),
    _syscall("chroot", b"/\0"),
    _syscall("setns", -1, 0),
    _syscall("unshare", 0x1000_0000),
    Probe("map shared memory", _shared_mapping),
    Probe("map executable memory", _executable_mapping),
    Probe("make memory executable", _make_executable("mprotect")),
    Probe("make memory executable with a key", _make_executable("pkey_mprotect")),
    _syscall("io_uring_setup", 1, bytes(120), descriptor=True),
    _syscall("bpf", 0, None, 0),
    _syscall("userfaultfd", 1, descriptor=True),
    _syscall("keyctl", 0, -3, 0),
    _syscall("add_key", b"user\0", b"gloveport-probe\0", b"x", 1, -2),
    _syscall("request_key", b"user\0", b"gloveport-probe\0", None, 0),
    _syscall("perf_event_open", None, 0, -1, -1, 0),
    _syscall("personality", 0xFFFF_FFFF),
    _syscall("modify_ldt", 0, None, 0),
    _syscall("inotify_init", descriptor=True),
    _syscall("inotify_init1", 0, descriptor=True),
    _syscall("io_setup", 0, bytes(8)),
    _syscall("memfd_secret", 0, descriptor=True),
    _syscall("seccomp", 2, 0, b"\0\0\0\0"),
    Probe("prctl: death signal", _death_signal),
    _syscall("prctl", 4, 1),
    Probe("the environment", _environment),
    Probe("inherited descriptors", _descriptors),
    Probe("the host's name", _host_name),
)
"""Ordered so that what changes this process where it succeeds comes late."""
