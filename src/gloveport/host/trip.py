"""A run that has moved into the thread of its tool.

A blocking session may not run a sync tool in the thread that waits for the run: nobody could leave a tool behind that hangs. To hand
each call to another thread and its result back costs as much again as the call itself (measured 30 of 65 µs). So the first call
that is alone takes the whole run with it: the other thread makes the call, goes on with the session, and makes the next one
where it is. The caller waits for the outcome, or takes the run back when a tool is late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ("SOON", "Hold", "Trip")

SOON: Final = 0.001
"""Seconds between two looks at a trip that was due, but is not in a tool just now."""


class Hold:
    """Who has the run: the thread that makes its calls, or the caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calling = self._asking = False
        self._due = time.monotonic()
        self.taken_back = False
        """The caller has the run again; the thread has a tool, nothing more."""
        self.interruption: BaseException | None = None
        """What the caller was interrupted with while the thread was not in a tool: the run ends with it."""

    # ── in the tool's thread ─────────────────────────────────────────────────────────────────────────────────────────

    def depart(self, due: float) -> bool:
        """A call begins; the caller may take the run back from `due` on. False: the caller was interrupted."""
        with self._lock:
            self._due, self._calling = due, self.interruption is None
            return self._calling

    def arrive(self) -> bool:
        """The call ended. False: the caller has taken the run back."""
        with self._lock:
            self._calling = False
            return not self.taken_back

    def ask(self, perform: Callable[[Any], Any], command: Any) -> Any:
        """What the guest answers. Raises what the caller was interrupted with, which may stop the guest only in here: one that
        is stopped when the run is over would be missing in the next one."""
        with self._lock:
            self._asking = self.interruption is None
        try:
            answer = perform(command) if self._asking else None
        finally:
            with self._lock:
                self._asking = False
        if self.interruption is not None:
            raise self.interruption
        return answer

    # ── in the caller's thread ───────────────────────────────────────────────────────────────────────────────────────

    def take_back(self) -> bool:
        """Have the run in this thread again, if a tool has the other one."""
        with self._lock:
            self.taken_back = self._calling
            return self._calling

    def interrupt(self, error: BaseException, abort: Callable[[], None]) -> bool:
        """Take the run back, or (false) have the other thread end it with `error`; `abort` stops the guest."""
        with self._lock:
            self.taken_back = self._calling
            if not self._calling:
                self.interruption = error
                if self._asking:
                    abort()
            return self._calling


class Trip(Hold):
    """A caller that waits in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = threading.Lock()
        self._ended.acquire()
        self._over = False
        self._value: Any = None
        self._error: BaseException | None = None

    # ── in the tool's thread ─────────────────────────────────────────────────────────────────────────────────────────

    def end(self, value: Any, error: BaseException | None) -> None:
        """The run is over."""
        if not self.taken_back:
            self._value, self._error, self._over = value, error, True
            self._ended.release()

    # ── in the caller's thread ───────────────────────────────────────────────────────────────────────────────────────

    def wait(self) -> bool:
        """Until the run is over (true), or the run was taken back because a call is late (false)."""
        while not self._ended.acquire(timeout=min(threading.TIMEOUT_MAX, max(SOON, self._due - time.monotonic()))):
            if self._due <= time.monotonic() and self.take_back():
                return False
        return True

    def outcome(self) -> Any:
        """What came of the run, once it is over; waits for that however often it is interrupted."""
        while not self._over:
            try:
                self._ended.acquire()
            except BaseException:  # noqa: S112  (one interruption is being reported already)
                continue
        if self._error is not None:
            raise self._error
        return self._value
