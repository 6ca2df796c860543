"""One machine, as those who use it hold it: its id, the way to its agent, and what to think when that is silent."""

from __future__ import annotations

import select
import time
from typing import Final

from ..errors import ProtocolViolation, SandboxGoneError, SandboxPausedError, UnreachableError
from .channel import Channel, connect
from .estate import Estate
from .registry import Record
from .wire import Ask, FrameReader, Tell, encode

__all__ = ("Box",)

_UNHEARD: Final = 5.0
"""Seconds of silence after which the agent is asked whether it is there."""
_HELLO_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 2.0


class Box:
    """Usable by any thread and event loop, and after a fork."""

    def __init__(self, estate: Estate, record: Record) -> None:
        self.estate, self.record = estate, record
        self.id = record.id
        self.folder = estate.folder(record.id)
        self.channel = Channel(self.folder, "agent.sock", self)
        self.ended: SandboxGoneError | None = None

    # ── what a connection's driver asks ──────────────────────────────────────────────────────────────────────────────

    def lost(self) -> None:
        """Raises `SandboxGoneError` unless the machine lives. One that is just being started or ended is waited for."""
        if self.ended is not None:
            raise self.ended
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            condition = self.estate.seen(self.record).condition
            if condition in ("running", "paused"):
                return
            if (self.folder / "ctl.sock").exists() and time.monotonic() < end:
                time.sleep(0.01)  # being started
                continue
            raise self.estate.gone(self.id)

    def closed(self) -> None:
        """As `lost`, when there was a connection. Processes that were killed are seen as gone only a moment later."""
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            self.lost()
            if self.estate.seen(self.record).condition == "paused" or self._answers() or time.monotonic() > end:
                return
            time.sleep(0.02)

    def silent(self, waited: float, *, heard: bool, overdue: bool) -> bool:
        """See `Watcher`."""
        self.lost()
        if self.estate.seen(self.record).condition == "paused":
            if not heard:
                # It was frozen before it could read what we sent. To connect wakes it, if it may be woken.
                self._wake()
            return True
        if overdue:
            raise UnreachableError(f"the machine {self.id!r} did not end a command {waited:.0f} s after it was due")
        if not heard and waited > _UNHEARD and not self._answers():
            raise UnreachableError(f"the agent of the machine {self.id!r} does not answer")
        return False

    def _wake(self) -> None:
        if not self.estate.record(self.id).auto_resume:
            raise SandboxPausedError(f"the machine {self.id!r} is paused")
        connect(self.folder, "agent.sock").close()

    def _answers(self) -> bool:
        try:
            sock = connect(self.folder, "agent.sock", wait=1.0)
        except OSError:
            return False
        with sock:
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            reader, end = FrameReader(), time.monotonic() + _HELLO_SECONDS
            try:
                sock.send(encode(Ask.HELLO))
                while (left := end - time.monotonic()) > 0 and poll.poll(left * 1000):
                    data = sock.recv(65536)
                    if not data:
                        return False
                    reader.feed(data)
                    frame = reader.next()
                    if frame is not None:
                        return frame[0] is Tell.OK
            except (OSError, ProtocolViolation):
                return False
            return False

    # ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def end(self, reason: str) -> None:
        """This handle's machine was deleted."""
        self.ended = SandboxGoneError(self.id, reason, files_kept=False)
        self.channel.drop()
