"""Two sockets, joined. The bytes stay in the kernel: splice(2) through a pipe for each direction."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

__all__ = ("Splice", "reset")

_CHUNK: Final = 1024 * 1024
_LARGE: Final = 1024 * 1024
"""From so many bytes on a connection is one that carries many: a larger pipe has fewer turns of the loop for them."""
_FLAGS: Final = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE
_SHOWN: Final = 4096
_LINGER: Final = struct.pack("ii", 1, 0)


def reset(sock: socket.socket) -> None:
    """Closes a connection so that the other side sees it broken, not ended."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    sock.close()


class Splice:
    """Carries bytes both ways until both sides have ended; what one side cannot take stops the other (back-pressure).

    `carried(n)` hears of every n bytes. `done` is set when both sockets are closed; they are the splice's from the beginning.
    """

    def __init__(self, one: socket.socket, other: socket.socket, carried: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.sockets = (one, other)
        self.carried = carried
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.moved = 0
        self._directions: list[_Direction] = []
        try:
            self._directions += [_Direction(self, one, other), _Direction(self, other, one)]
        except OSError:  # no descriptors are left
            self.close(broken=True)

    @property
    def carried_each(self) -> tuple[int, int]:
        """Bytes that `one` sent, and that `other` sent."""
        if not self._directions:
            return 0, 0
        return self._directions[0].moved, self._directions[1].moved

    def listen(self, heard: Callable[[bytes], bool]) -> None:
        """Shows `heard` what `other` says, without taking it away, until it gives `True`."""
        if self._directions:
            self._directions[1].heard = heard

    def hold(self) -> None:
        """Carries nothing of `one` for now."""
        if self._directions:
            self._directions[0].hold()

    def release(self) -> None:
        """Carries it again."""
        if self._directions and not self.done.done():
            self._directions[0].release()

    def silence(self) -> None:
        """Carries nothing of `one` any more: it is as if it had ended."""
        if self._directions and not self.done.done():
            self._directions[0].ended = True

    def ended(self) -> None:
        """One direction is through."""
        if all(direction.ended for direction in self._directions):
            self.close()

    def close(self, *, broken: bool = False) -> None:
        """Ends it at once. Idempotent."""
        if self.done.done():
            return
        for sock in self.sockets:
            self._loop.remove_reader(sock.fileno())
            self._loop.remove_writer(sock.fileno())
            reset(sock) if broken else sock.close()
        for direction in self._directions:
            direction.close()
        self.done.set_result(None)


class _Direction:
    def __init__(self, owner: Splice, source: socket.socket, sink: socket.socket) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        # By number: asyncio describes a socket at length to itself each time it finds nothing registered for it.
        self._source, self._sink, self._begin, self._end = source.fileno(), sink.fileno(), source, sink
        self.heard: Callable[[bytes], bool] | None = None
        self.moved = 0
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._held = 0
        self._waiting = self._large = False
        self.ended = False
        self._loop.add_reader(self._source, self._read)

    def close(self) -> None:
        for fd in (self._out, self._in):
            os.close(fd)

    def hold(self) -> None:
        self._loop.remove_reader(self._source)

    def release(self) -> None:
        self._loop.add_reader(self._source, self._read)

    def _read(self) -> None:
        try:
            if self.heard is not None and self.heard(self._begin.recv(_SHOWN, socket.MSG_PEEK)):
                self.heard = None
            count = os.splice(self._source, self._in, _CHUNK, flags=_FLAGS)
        except BlockingIOError:
            return
        except OSError:
            self._owner.close(broken=True)
            return
        if count == 0:
            self._loop.remove_reader(self._source)
            self.ended = True
            with contextlib.suppress(OSError):
                self._end.shutdown(socket.SHUT_WR)
            self._owner.ended()
            return
        self._held = count
        self._owner.moved += count
        self.moved += count
        if self.moved >= _LARGE and not self._large:
            self._large = True
            with contextlib.suppress(OSError):  # this user has too many pages in pipes
                fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _CHUNK)
        self._write()
        self._owner.carried(count)

    def _write(self) -> None:
        try:
            while self._held:
                self._held -= os.splice(self._out, self._sink, self._held, flags=_FLAGS)
        except BlockingIOError:
            self._wait()
            return
        except OSError:
            self._owner.close(broken=True)
            return
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._read)

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._write)
