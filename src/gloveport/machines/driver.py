"""What makes machines: the protocol of drivers, and what a host can give, as it was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from .spec import BoxSpec
from .state import Seen

__all__ = ("Capabilities", "Driver", "LimitKinds", "Pushed")

Pushed = Literal["done", "busy", "stale"]
"""Whether what a machine has written is frozen under a new writable layer. `busy`: not now, or not here. `stale`: it was before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LimitKinds:
    """How each limit is kept here."""

    memory: Literal["total", "polled", "per_process", "none"] = "none"
    """`total`: the kernel counts the whole machine. `polled`: it is measured now and then. `per_process`: each process by itself."""
    pids: Literal["hard", "none"] = "none"
    cpu: Literal["quota", "none"] = "none"
    disk: Literal["hard_disk", "hard_ram", "polled", "none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a driver gives on this host. Every value was found by doing it in a small machine."""

    driver: str
    isolation: Literal["namespace", "gvisor", "microvm", "none"]
    """What stands between the machine and the host's kernel. `none`: machines do not start here, see `problem`."""
    memory_pause: Literal["ram", "disk", "none"] = "none"
    """Where memory is while a machine is paused: `ram` is lost when the host is restarted."""
    files: Literal["disk", "memory"] = "disk"
    """Where what it writes is while it runs. In `memory`, a crash loses it; a pause does not."""
    fork: Literal["files", "memory", "none"] = "none"
    fork_files: Literal["relayer", "copy", "none"] = "none"
    """How files are forked: `relayer` takes as long for any amount of them, unless a process of the machine is in the way."""
    limits: LimitKinds = dataclasses.field(default_factory=LimitKinds)
    net: Literal["none", "rules", "proxy"] = "none"
    """`rules`: every connection of every program is the gateway's. `proxy`: there is an HTTP proxy, and no other way out."""
    root_user: bool = False
    """Whether the machine's root may give files to other users, as package managers of distributions do."""
    freezer: Literal["cgroup", "signals", "none"] = "none"
    problem: str = ""
    """Why there is no isolation."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Capabilities:
        """From what `as_dict` gave. Raises `TypeError` for what another release gave."""
        options: dict[str, Any] = {**data, "limits": LimitKinds(**data["limits"])}
        return cls(**options)

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


class Driver(Protocol):
    """Makes machines of one kind. Every call blocks; the caller holds the machine's lock (`locks.transition`).

    `folder` is the machine's folder in the state directory. What is alive is never remembered: `look` finds it out each time.
    """

    name: str

    @property
    def copy_memory(self) -> Callable[[Path, Path], None] | None:
        """Gives what was written down of a paused machine (its folder) to a new one that was not started yet. `None`: it cannot."""
        ...

    def probe(self, root: Path) -> Capabilities:
        """What it gives here. Does not raise for what is missing: it says so."""
        ...

    def prepare(self, folder: Path, spec: BoxSpec) -> BoxSpec:
        """Make what has to be there before the start, outside of the folder, and name it in the spec."""
        ...

    def start(self, folder: Path, spec: BoxSpec) -> None:
        """Start it over the files in the folder, and return when it answers. Leaves no process behind when it raises."""
        ...

    def look(self, folder: Path) -> Seen:
        """How it is now."""
        ...

    def freeze(self, folder: Path) -> None:
        """Stop all of it, its memory kept. Nothing happens when it is stopped already."""
        ...

    def thaw(self, folder: Path) -> None:
        """Let it go on."""
        ...

    def still(self, folder: Path) -> AbstractContextManager[None]:
        """Nothing in it moves meanwhile, and nobody wakes it; then it is as it was. It goes on, too, when whoever asked for this dies.
        Raises at the end when it was not still all the time."""
        ...

    def push_layer(self, folder: Path, upper: str, lowers: Sequence[Path]) -> Pushed:
        """Let a machine that lives write to a new folder, and never again to `upper` in its folder, to which it writes now. `lowers`: what
        is below that, the topmost first. Unless it is `done`, everything is as before."""
        ...

    def timers(self, folder: Path, **milliseconds: int) -> None:
        """Set `pause_after_ms`, `idle_ms`, `delete_after_ms`, `wake`. -1 leaves one as it is, 0 clears it."""
        ...

    def kill(self, folder: Path, reason: str) -> None:
        """End all of its processes. Its files stay. Returns when nothing of it runs any more."""
        ...

    def release(self, folder: Path) -> None:
        """Give back what `prepare` made."""
        ...

    def usage(self, folder: Path) -> dict[str, int]:
        """Bytes of memory, number of processes and the like, as it counts them."""
        ...
