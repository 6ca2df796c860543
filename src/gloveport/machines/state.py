"""How a machine is: its lock and the line that its supervisor writes. Both are cheap, and no process id is trusted."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
from pathlib import Path
from typing import Final, Literal

from .home import boot_id

__all__ = ("Condition", "Seen", "look", "lock_held", "writable_layer")

Condition = Literal["running", "paused", "stopped", "absent"]
"""`stopped`: its processes are gone, its files are here. `absent`: nothing is here."""
_MOST = 4096
_UPPER: Final = re.compile(r"upper(?:\.[0-9]{1,9})?")


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a look at a machine's folder showed."""

    condition: Condition
    reason: str = ""
    """Why it stopped or paused: `killed`, `holder-killed`, `auto-delete`, `timeout`, `idle`, `asked`, `reboot`, `exited` …"""
    since: float = 0.0
    """Unix time of that."""
    restarts: int = 0
    """How often its supervisor was started anew."""


def lock_held(folder: Path) -> bool | None:
    """Whether somebody holds the lock of the machine, that is, whether it lives. `None`: there is no such file."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not see each other
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def look(folder: Path) -> Seen:
    """How the machine is now."""
    held = lock_held(folder)
    told = _line(folder)
    state, reason = told.get("state", ""), told.get("reason", "")
    since = _number(told.get("wall", "")) / 1000
    restarts = int(_number(told.get("restarts", "")))
    if held and state != "gone":  # its supervisor keeps the lock while it cleans up
        condition: Condition = "paused" if state == "paused" else "running"
        return Seen(condition, reason, since, restarts)
    if held is None and not folder.is_dir():
        return Seen("absent")
    if state == "gone":
        return Seen("stopped", reason or "exited", since, restarts)
    reason = "reboot" if told.get("boot_id", boot_id()) != boot_id() else "crashed" if state else "not-started"
    return Seen("stopped", reason, since, restarts)


def writable_layer(folder: Path) -> str | None:
    """The name of the folder that a machine which lives writes to, as its supervisor says. `None`: it does not live."""
    told = _line(folder)
    if not lock_held(folder) or told.get("state", "gone") == "gone":
        return None
    name = told.get("upper", "upper")
    return name if _UPPER.fullmatch(name) else "upper"


def _line(folder: Path) -> dict[str, str]:
    try:
        with open(folder / "state", "rb") as file:
            text = file.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return {}
    return {part.partition("=")[0]: part.partition("=")[2] for part in text.split()}


def _number(text: str) -> float:
    try:
        return max(0.0, float(int(text[:20])))
    except ValueError:
        return 0.0
