"""How many processors there are for this process and its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ("MANY", "processors")

_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def processors(own: Path = _OWN, groups: Path = _CONTROL_GROUPS) -> float:
    """Those that it may run on, or what the quota of its control group comes to, if that is less: with `cpu.max` at 1.5 processors, two
    that wait for each other awake are stopped for a quarter of the time.

    `own` and `groups`: where the kernel tells of this process's groups and their settings (cgroups(7); v2, and v1's `cpu`).
    """
    return min((float(len(os.sched_getaffinity(0))), *_quotas(own, groups)))


def _quotas(own: Path, groups: Path) -> Iterator[float]:
    for line in _words(own, "\n"):
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or controllers not in ("", "cpu", "cpu,cpuacct"):
            continue
        top = groups / controllers
        # In a container the path may be one that only its host sees: then the top is what is its own.
        for group in {top, *(top / part for part in (Path(path.lstrip("/")), *Path(path.lstrip("/")).parents))}:
            if controllers:
                limit = [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
            else:
                limit = _words(group / "cpu.max")
            if len(limit) == 2 and limit[0].isdecimal() and limit[1].isdecimal() and int(limit[1]):
                yield int(limit[0]) / int(limit[1])


def _words(path: Path, separator: str | None = None) -> list[str]:
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError):
        return []
    return [word for word in text.split(separator) if word]


MANY: Final = processors() >= 2
"""Whether a process and its worker can run at the same time: else to wait awake would only keep the other one waiting."""
