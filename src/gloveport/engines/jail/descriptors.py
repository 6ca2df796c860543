"""Descriptors: over a unix socket, and closing those that are nobody's business."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Collection
from typing import Final

from gloveport.engines.jail import syscalls

__all__ = ("NoRoom", "close_others", "receive", "send")

_FD: Final = struct.calcsize("i")
_LAST: Final = 0x7FFF_FFFF
_ONE_BY_ONE: Final = 1 << 20
"""As many as Linux lets a process have open unless `fs.nr_open` was raised."""


def close_others(kept: Collection[int]) -> None:
    """Closes every descriptor of this process but those. Their numbers are the host's, which may have any number of them open."""
    held = sorted(set(kept))
    for before, after in zip([-1, *held], [*held, _LAST + 1], strict=True):
        if after > before + 1 and syscalls.attempt("close_range", before + 1, after - 1, 0) < 0:  # before Linux 5.9
            os.closerange(before + 1, min(after, _ONE_BY_ONE))


class NoRoom(OSError):
    """A message came, and the descriptors that belonged to it were more than this process may have; they are lost."""

    def __init__(self, data: bytes) -> None:
        super().__init__(errno.EMFILE, os.strerror(errno.EMFILE))
        self.data: Final = data


def receive(sock: socket.socket, size: int, count: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """One message of at most `size` bytes and the descriptors that came with it, at most `count`, closed on exec.

    Raises `NoRoom` when this process may not have that many open. Not `socket.recv_fds`: that ignores its flags (CPython 3.11), so
    that what it receives is inherited by every program started later.
    """
    data, ancillary, told, _ = sock.recvmsg(size, socket.CMSG_LEN(count * _FD), flags | socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(content) // _FD
            fds += struct.unpack(f"{whole}i", content[: whole * _FD])
    if told & socket.MSG_CTRUNC:  # the kernel had no number left for the others, and dropped them
        for fd in fds:
            os.close(fd)
        raise NoRoom(data)
    return data, fds


def send(sock: socket.socket, data: bytes, fds: tuple[int, ...]) -> None:
    """Sends one message with descriptors."""
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))])
