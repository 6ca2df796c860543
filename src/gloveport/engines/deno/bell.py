"""How a worker learns that a request is there without sleeping until it comes."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Final

from .. import processors
from .folder import PrivateFolder

__all__ = ("INSIDE", "Bell")

INSIDE: Final = "/bell"
"""Where a jailed worker sees it."""
_MEMORY: Final = "/dev/shm"  # noqa: S108  (a directory of this user's own in it)
"""A file system in memory: to write there never waits for a disk."""
_folder: Final = PrivateFolder("gloveport-bells-", _MEMORY)


class Bell:
    """A byte that the host writes and a worker reads: how many requests the host has sent, modulo 256.

    To be woken takes a sleeping process longer than most requests do. One that looks whether there is more for a moment has to look
    cheaply: a read of a socket that has nothing is an exception in Deno, a read of this file is half a microsecond (2.9.8). It is a hint
    and no more: what is sent is on the socket.

    A worker must not be able to cut it short under the host's mapping. It sees it on a mount that is read-only, and nowhere else once it
    is taken down, which is before any guest code runs.
    """

    def __init__(self) -> None:
        """Raises `OSError`."""
        self._owner = os.getpid()
        self._hangs = True
        self.path = str(_folder.unused())
        """The host's path, until `take_down`."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o644)  # the worker has another user id
            # Its page is there from now on: without room for it, a write to the mapping would be a fatal signal.
            os.write(fd, b"\0")
            self._byte = mmap.mmap(fd, 1)
        except BaseException:
            os.unlink(self.path)
            raise
        finally:
            os.close(fd)
        self._count = 0

    @classmethod
    def hung(cls) -> Bell | None:
        """A new one; `None` where there is no memory to share, or no processor for a worker that waits awake."""
        if not processors.MANY:
            return None
        try:
            return cls()
        except OSError:
            return None

    def ring(self) -> None:
        """A request has been sent."""
        self._count = (self._count + 1) & 0xFF
        try:
            self._byte[0] = self._count
        except ValueError:  # closed: the worker is gone
            pass

    def take_down(self) -> None:
        """Its worker has opened it, or will not: nobody else shall. Idempotent."""
        hung, self._hangs = self._hangs, False
        if hung and self._owner == os.getpid():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def close(self) -> None:
        """Idempotent."""
        self.take_down()
        self._byte.close()
