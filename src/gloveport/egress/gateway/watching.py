"""Hearing of each `connect` of a jailed program before the kernel makes it: seccomp_unotify(2).

So a port is opened when it is first wanted, and a refusal is an error at once. It is no boundary, which is why it may let the kernel go
on with an argument that the program can still change: wherever the connection then goes, it ends at a listener of the gateway or at none.

Other ways to hear of all ports were weighed: packet filters that redirect (nftables, TPROXY) need kernel modules that an ordinary user
cannot load and many containers lack; a listener on each of 65,535 ports takes a quarter of a gigabyte of kernel memory per jail.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

__all__ = ("Watcher",)

_RECEIVE, _SEND, _STILL_VALID = 0xC050_2100, 0xC018_2101, 0x4008_2102
_NOTIFICATION: Final = struct.Struct("QIIiIQ6Q")
_RESPONSE: Final = struct.Struct("QqiI")
_CONTINUE: Final = 1
_LONGEST_ADDRESS: Final = 28


class Watcher:
    """Asks `wanted((address, port))` for each, which gives the number of an error, or 0.

    With `others`, what is no connection of the internet (unix sockets, netlink) is let through; else it fails with `EACCES`.
    """

    def __init__(self, descriptor: int, wanted: Callable[[tuple[str, int]], int], *, others: bool = False) -> None:
        self._descriptor = descriptor
        self._others = others
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._hear)

    def close(self) -> None:
        """Then every `connect` gives `ENOSYS`. Idempotent."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _hear(self) -> None:
        request = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._descriptor, _RECEIVE, request)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):  # the caller is gone; anything else: so is the program
                self.close()
            return
        identity, thread, _, _, _, _, _, pointer, length, *_ = _NOTIFICATION.unpack(request)
        try:
            where = self._address(identity, thread, pointer, min(length, _LONGEST_ADDRESS))
            refused = 0 if where is None else self._wanted(where)
        except OSError:
            refused = errno.EACCES
        answer = (identity, 0, -refused, 0) if refused else (identity, 0, 0, _CONTINUE)
        with contextlib.suppress(OSError):  # the caller is gone
            fcntl.ioctl(self._descriptor, _SEND, _RESPONSE.pack(*answer))

    def _address(self, identity: int, thread: int, pointer: int, length: int) -> tuple[str, int] | None:
        """Address and port that the program gave; `None` for one that takes a connection back (`AF_UNSPEC`) and that is let through.

        Raises `OSError` for another family: of a pair of unix sockets one can be connected anew, which nothing of ours does.
        """
        memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            # The number of a thread that is gone may be another's by now.
            fcntl.ioctl(self._descriptor, _STILL_VALID, struct.pack("Q", identity))
            given = os.pread(memory, length, pointer)
        finally:
            os.close(memory)
        if len(given) < 2:
            raise OSError(errno.EACCES, "no address")
        (family,) = struct.unpack_from("H", given)
        if family == socket.AF_UNSPEC or (self._others and family not in (socket.AF_INET, socket.AF_INET6)):
            return None
        if len(given) < 16:
            raise OSError(errno.EACCES, "no internet address")
        (port,) = struct.unpack_from("!H", given, 2)
        if family == socket.AF_INET:
            return socket.inet_ntop(socket.AF_INET, given[4:8]), port
        if family == socket.AF_INET6 and len(given) >= 24:
            return socket.inet_ntop(socket.AF_INET6, given[8:24]), port
        raise OSError(errno.EACCES, "no internet address")
