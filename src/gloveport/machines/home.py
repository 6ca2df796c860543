"""Where machines are kept: one folder per user."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from pathlib import Path
from typing import Final

from ..errors import SandboxError

__all__ = ("boot_id", "box_folder", "host_name", "state_path", "state_root")

_PRIVATE: Final = 0o077


def state_path(given: str | os.PathLike[str] | None = None) -> Path:
    """Where it is, or would be: see `state_root`."""
    path = given or os.environ.get("GLOVEPORT_STATE")
    if not path:
        base = os.environ.get("XDG_STATE_HOME", "")
        path = Path(base if os.path.isabs(base) else Path.home() / ".local" / "state", "gloveport")
    return Path(path).absolute()


def state_root(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder, made if it is missing.

    That is the one given, else `$GLOVEPORT_STATE`, else `$XDG_STATE_HOME/gloveport`, else `~/.local/state/gloveport` (XDG Base
    Directory Specification 0.8). Raises `SandboxError` when it belongs to somebody else, or others may write to it.
    """
    root = state_path(given)
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = root.stat()
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
        raise SandboxError(
            f"the folder of machines {str(root)!r} belongs to another user",
            hint="set `GLOVEPORT_STATE` to one of yours",
        )
    if found.st_mode & _PRIVATE:
        if found.st_mode & 0o022:
            raise SandboxError(f"others may write to the folder of machines {str(root)!r}", hint=f"chmod 700 {root}")
        root.chmod(0o700)
    for name in ("boxes", "layers"):
        (root / name).mkdir(mode=0o700, exist_ok=True)
    return root


def box_folder(root: Path, id: str) -> Path:  # noqa: A002
    """The folder of one machine."""
    return root / "boxes" / id


def boot_id() -> str:
    """Of the kernel that runs now: another one after every start of the host."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def host_name() -> str:
    """This host, as it is told to people and compared: its name, and a part of a hash of its machine id where it has one."""
    name = socket.gethostname()
    try:
        machine = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        return name
    return f"{name}/{hashlib.sha256(b'gloveport' + machine).hexdigest()[:8]}" if machine else name
