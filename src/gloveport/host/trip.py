"""A run that has moved into the thread of its tool.

A blocking session may not run a sync tool in the thread that waits for the run: nobody could leave a tool behind that hangs. To hand
each call to another thread and its result back costs as much again as the call itself (measured 30 of 65 µs). So the first call
that is alone takes the whole run with it: the other thread makes the call, goes on with the session, and makes the next one
where it is. The caller waits for the outcome, or takes the run back when a tool is late.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ("LONGEST", "Hold", "Trip")

LONGEST: Final = 3600.0
"""Seconds that a caller sleeps without a look."""


class Hold:
    """Who has the run: the thread that makes its calls, or the caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calling = self._asking = False
        self._due = math.inf
        self._until = 0.0
        """Until when the caller sleeps at present."""
        self.taken_back = False
        """The caller has the run again; the thread has a tool, nothing more."""
        self.interruption: BaseException | None = None
        """What the caller was interrupted with while the thread was not in a tool: the run ends with it."""

    # ── in the tool's thread ─────────────────────────────────────────────────────────────────────────────────────────

    def depart(self, due: float) -> bool:
        """A call begins; the caller may take the run back from `due` on. False: the caller was interrupted."""
        with self._lock:
            self._due, self._calling = due, self.interruption is None
            calling, sooner = self._calling, due < self._until
        if sooner:  # a timer of the guest is due before a call was late so far
            self._wake()
        return calling

    def _wake(self) -> None:
        """Have the caller look again for how long to wait."""
        raise NotImplementedError

    def arrive(self) -> bool:
        """The call ended. False: the caller has taken the run back."""
        with self._lock:
            self._calling, self._due = False, math.inf
            return not self.taken_back

    def call(self, function: Callable[[], Any], due: float) -> tuple[Any, BaseException | None, bool] | None:
        """Make a call in this thread, as `depart` and `arrive` say: its value, its error, and whether the run is still here. Nothing:
        the caller was interrupted."""
        if not self.depart(due):
            return None
        value, error = None, None
        try:
            value = contextvars.copy_context().run(function)
        except BaseException as raised:
            error = raised
        return value, error, self.arrive()

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

    def patience(self) -> float:
        """Seconds that the caller may sleep now; `_wake` is called if that turns out to be too long."""
        with self._lock:
            now = time.monotonic()
            self._until = min(self._due, now + LONGEST)
            return max(0.0, self._until - now)

    def late(self) -> bool:
        """Have the run in this thread again, if a tool has the other one and is late."""
        with self._lock:
            self.taken_back = self._calling and self._due <= time.monotonic()
            return self.taken_back

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
        self._news = threading.Lock()
        self._news.acquire()
        self._over = False
        self._value: Any = None
        self._error: BaseException | None = None

    # ── in the tool's thread ─────────────────────────────────────────────────────────────────────────────────────────

    def end(self, value: Any, error: BaseException | None) -> None:
        """The run is over."""
        if not self.taken_back:
            self._value, self._error, self._over = value, error, True
            self._wake()

    def _wake(self) -> None:
        if self._news.locked():
            self._news.release()

    # ── in the caller's thread ───────────────────────────────────────────────────────────────────────────────────────

    def wait(self) -> bool:
        """Until the run is over (true), or the run was taken back because a call is late (false)."""
        while not self._over:
            if not self._news.acquire(timeout=self.patience()) and self.late():
                return False
        return True

    def outcome(self) -> Any:
        """What came of the run, once it is over; waits for that however often it is interrupted."""
        while not self._over:
            try:
                self._news.acquire()
            except BaseException:  # noqa: S112  (one interruption is being reported already)
                continue
        if self._error is not None:
            raise self._error
        return self._value
