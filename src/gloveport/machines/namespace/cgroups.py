"""Control groups of machines: found, made and removed, version 1 and 2, where this user may make any."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ("Groups", "find_groups", "make_groups", "remove_groups")

_V1: Final = {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"}
_V2: Final = {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.max", "freeze": "cgroup.freeze"}
_REMOVE_SECONDS: Final = 2.0


@dataclasses.dataclass(frozen=True)
class Groups:
    """Folders below which groups of machines can be made, and what can be limited or done there."""

    parents: tuple[Path, ...] = ()
    can: frozenset[str] = frozenset()
    """Of `memory`, `pids`, `cpu`, `freeze`."""


def _hierarchies() -> Iterator[tuple[Path, frozenset[str]]]:
    """Mount point and controllers of each hierarchy; no controllers: version 2. Format: proc(5), mountinfo."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind in ("cgroup", "cgroup2") and before.split(" ")[3] == "/":
                names = frozenset(options.strip().split(",")) & set(_V1) if kind == "cgroup" else frozenset[str]()
                if names or kind == "cgroup2":
                    yield Path(before.split(" ")[4]), names


def _own(point: Path, names: frozenset[str]) -> Path:
    """The group of this process in a hierarchy."""
    for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if names & set(controllers.split(",")) if names else controllers == "":
            return point / path.lstrip("/")
    return point


def find_groups() -> Groups:
    """What this user may make here. Makes one folder, `gloveport-<uid>`, in each hierarchy that can be used."""
    parents, can = list[Path](), set[str]()
    with contextlib.suppress(OSError):
        for point, names in _hierarchies():
            # The top first: a group below that of a service would end with the service.
            for base in dict.fromkeys((point, _own(point, names))):
                parent = base / f"gloveport-{os.geteuid()}"
                found = _usable(parent, _V2 if not names else {name: _V1[name] for name in names})
                if found:
                    parents.append(parent)
                    can |= found
                    break
    return Groups(tuple(parents), frozenset(can))


def _usable(parent: Path, files: dict[str, str]) -> set[str]:
    probe = parent / f"probe-{os.getpid()}-{time.monotonic_ns()}"
    try:
        parent.mkdir(exist_ok=True)
        for folder in (parent.parent, parent):
            if (folder / "cgroup.subtree_control").exists():
                for controller in ("memory", "pids", "cpu"):
                    with contextlib.suppress(OSError):  # version 1 has it, or this user has not been given it
                        (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        probe.mkdir()
    except OSError:
        return set()
    try:
        return {name for name, file in files.items() if os.access(probe / file, os.W_OK)}
    finally:
        with contextlib.suppress(OSError):
            probe.rmdir()


def make_groups(groups: Groups, id: str) -> tuple[str, ...]:  # noqa: A002
    """One folder per hierarchy for this machine."""
    made = list[str]()
    try:
        for parent in groups.parents:
            (parent / id).mkdir(exist_ok=True)
            made.append(str(parent / id))
    except OSError:
        remove_groups(made)
        raise
    return tuple(made)


def remove_groups(folders: list[str] | tuple[str, ...]) -> None:
    """End what is still in them, and remove them. Those that are not there are no error."""
    end = time.monotonic() + _REMOVE_SECONDS
    for folder in folders:
        with contextlib.suppress(OSError):
            if os.path.exists(f"{folder}/cgroup.kill") and os.path.getsize(f"{folder}/cgroup.procs") >= 0:
                Path(folder, "cgroup.kill").write_text("1")
        while True:
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno == errno.EBUSY and time.monotonic() < end:
                    time.sleep(0.005)
                    continue
            break
