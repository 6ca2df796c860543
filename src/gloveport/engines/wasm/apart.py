"""A host that waits awake for its worker needs a processor, and the worker another one, which the scheduler does not know."""

from __future__ import annotations

import ctypes
import os
from typing import Final

__all__ = ("Apart",)


class Apart:
    """Keeps a worker off the processor of the thread that waits for it awake.

    Who is sent something is woken where its sender runs, who will sleep soon, it is assumed; in a virtual machine an idle processor is
    taken for one that the host has taken away, so nobody is woken there (Linux 6.18 under KVM). But the sender waits awake for a moment:
    the two would take turns on one processor while another does nothing (a run of 65 µs takes 160 to 250).
    """

    __slots__ = ("_allowed", "_off", "_pid")

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._allowed: frozenset[int] | None = None
        """Where it may run; empty: it is not to be moved."""
        self._off = -1
        """The processor where it may not run at present."""

    def keep_off(self) -> None:
        """From this thread's processor."""
        here = _sched_getcpu()
        if here == self._off:
            return
        allowed = self._allowed
        if allowed is None:
            allowed = self._allowed = self._processors()
        others = allowed - {here}
        if allowed and others:
            self._off = here
            self._move(others)

    def let_go(self) -> None:
        """It computes for longer: the scheduler knows best where."""
        if self._off >= 0 and self._allowed:
            self._off = -1
            self._move(self._allowed)

    def _processors(self) -> frozenset[int]:
        try:
            found = os.sched_getaffinity(self._pid)
        except OSError:
            return frozenset()
        return frozenset(found if len(found) > 1 else ())

    def _move(self, to: frozenset[int]) -> None:
        try:
            os.sched_setaffinity(self._pid, to)
        except OSError:
            # It has ended; or is another user's, and this process may not say where it runs: slower, and as right.
            self._allowed = frozenset()


_sched_getcpu: Final = ctypes.CDLL(None).sched_getcpu
