"""Interrupts guests of this process when their time is up.

Arming must cost next to nothing, as every step does it: an entry in a dict, which one thread looks through every few
milliseconds while there is any. (A `threading.Timer` per step costs more than the step.)
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from typing import Final, Protocol

__all__ = ("Watchdog", "watchdog")

_TICK: Final = 0.005
_IDLE_TICKS: Final = 200


class _Interruptible(Protocol):
    def interrupt(self) -> None: ...


class Watchdog:
    """Deadlines of guests; one thread, which ends when nothing was armed for a second."""

    def __init__(self) -> None:
        self._armed: dict[int, tuple[float, _Interruptible]] = {}
        self._tokens = itertools.count()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def arm(self, guest: _Interruptible, limit: float) -> int:
        """Interrupt `guest` in `limit` seconds, unless `disarm` comes first."""
        token = next(self._tokens)
        self._armed[token] = (time.monotonic() + limit, guest)
        if self._thread is None:
            try:
                self._start()
            except BaseException:
                self.disarm(token)
                raise
        return token

    def disarm(self, token: int) -> None:
        """Forget a deadline."""
        self._armed.pop(token, None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="gloveport-watchdog", daemon=True)
                thread.start()
                self._thread = thread  # only now: if none can be started, the next guest tries again

    def _watch(self) -> None:
        quiet = 0
        while True:
            time.sleep(_TICK)
            now = time.monotonic()
            for token, (deadline, guest) in list(self._armed.items()):
                if now >= deadline and token in self._armed:
                    guest.interrupt()  # again on every turn, until the step is over
            quiet = 0 if self._armed else quiet + 1
            if quiet > _IDLE_TICKS:
                with self._lock:
                    # In this order: whoever arms after the look finds that there is no thread.
                    self._thread = None
                    if not self._armed:
                        return
                    self._thread = threading.current_thread()


_current = Watchdog()


def watchdog() -> Watchdog:
    """This process's watchdog."""
    return _current


def _renew() -> None:
    global _current
    _current = Watchdog()


os.register_at_fork(after_in_child=_renew)
