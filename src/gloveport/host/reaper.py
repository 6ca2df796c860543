"""Ends pauses that lasted longer than `max_pause`: one thread per process, asleep until the next one is due."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
import weakref
from typing import Protocol

__all__ = ("PauseReaper", "pause_reaper")


class _Pausing(Protocol):
    def expire_pause(self, token: int) -> None: ...


class PauseReaper:
    """Deadlines of paused sessions. A session that was dropped or resumed is skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, weakref.ref[_Pausing]]] = []
        self._tokens = itertools.count(1)
        self._condition = threading.Condition()
        self._running = False

    def watch(self, session: _Pausing, seconds: float) -> int:
        """Call `session.expire_pause(token)` in that many seconds; gives the token."""
        token = next(self._tokens)
        with self._condition:
            heapq.heappush(self._heap, (time.monotonic() + seconds, token, weakref.ref(session)))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="gloveport-pauses", daemon=True).start()
            elif self._heap[0][1] == token:
                self._condition.notify()
        return token

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._heap:
                    self._running = False
                    return
                wait = self._heap[0][0] - time.monotonic()
                if wait > 0:
                    self._condition.wait(wait)
                    continue
                _, token, reference = heapq.heappop(self._heap)
            session = reference()
            if session is not None:
                session.expire_pause(token)
            del session


_current = PauseReaper()


def pause_reaper() -> PauseReaper:
    """This process's reaper."""
    return _current


def _renew() -> None:
    global _current
    _current = PauseReaper()


os.register_at_fork(after_in_child=_renew)
