"""Descriptors over a unix socket."""

from __future__ import annotations

import socket
import struct
from typing import Final

__all__ = ("receive", "send")

_FD: Final = struct.calcsize("i")


def receive(sock: socket.socket, size: int, count: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """One message of at most `size` bytes and the descriptors that came with it, at most `count`, closed on exec.

    Not `socket.recv_fds`: that ignores its flags (CPython 3.11), so that what it receives is inherited by every program started later.
    """
    data, ancillary, _, _ = sock.recvmsg(size, socket.CMSG_LEN(count * _FD), flags | socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(content) // _FD
            fds += struct.unpack(f"{whole}i", content[: whole * _FD])
    return data, fds


def send(sock: socket.socket, data: bytes, fds: tuple[int, ...]) -> None:
    """Sends one message with descriptors."""
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))])
