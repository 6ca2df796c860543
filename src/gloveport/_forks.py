"""What a forked copy of the process must not share with its parent."""

from __future__ import annotations

import os
import threading

__all__ = ("ProcessLock",)


class ProcessLock:
    """One lock for each process: another thread may hold the parent's at a fork, and is not there to give the child's back."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.Lock] = {}

    @property
    def own(self) -> threading.Lock:
        """That of this process."""
        return self._locks.setdefault(os.getpid(), threading.Lock())
