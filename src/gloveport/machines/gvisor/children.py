"""Processes that `runsc` leaves behind when it is killed: they become the keeper's, which ends them and takes their place in the table."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection, Sequence
from typing import Final

__all__ = ("adopt_orphans", "begin", "end_children", "sentry_of")

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """What our children leave behind is ours from now on, and not process 1's, which may be slow to notice that one has ended: `runsc`
    waits for that (20240729: looks at it again after 0.5 s and more)."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def begin(groups: Sequence[str]) -> None:
    """In a child of ours: it dies with us, and counts for its machine. We do not: what the machine uses up is not ours."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for group in groups:
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write("0")


def end_children(but: Collection[int]) -> None:
    """All of them, and what they leave behind. Returns when there are none."""
    while found := [pid for pid in _children() if pid not in but]:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def sentry_of(runsc: int) -> int:
    """A descriptor (`pidfd_open`) of the process that is the machine's kernel: the one child of `runsc run` of that name. Raises
    `OSError`."""
    for pid in _children(runsc):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read(64).startswith(b"runsc-sandbox"):
                return os.pidfd_open(pid)
    raise ProcessLookupError(runsc)


def _children(of: int = 0) -> list[int]:
    found, parent = list[int](), of or os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == parent:
                    found.append(int(name))
    return found
