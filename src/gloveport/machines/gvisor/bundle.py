"""What a machine is for an OCI runtime: `config.json` (OCI runtime specification 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..spec import MIB, BoxSpec
from .network import FOLDER

__all__ = ("AGENT", "KEPT", "NET", "RUN", "config")

RUN: Final = "/.gloveport/run"
"""In the machine: the folder of the agent's socket, which is one of the host's."""
NET: Final = "/.gloveport/net"
"""In the machine: the folder of the proxy's socket, read-only."""
AGENT: Final = "/.gloveport/box"
KEPT: Final = "/.gloveport/kept"
"""What the image has below `keep`: copied over the empty folders there when the machine starts."""
_CAPABILITIES: Final = [
    f"CAP_{name}"
    for name in (
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
    )
]


def config(spec: BoxSpec, root: Path, run: Path, program: Path) -> Mapping[str, Any]:
    """`root`: the tree; `run`: the folder of the socket, which holds the agent's `spec`; `program`: the agent."""
    net = [_bind(run.parent / FOLDER, NET, "ro")] if spec.network else []
    names = ("bounding", "effective", "permitted", "inheritable")
    return {
        "ociVersion": "1.0.0",
        "hostname": spec.hostname,
        "root": {"path": str(root), "readonly": False},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [AGENT, "agent", f"{RUN}/spec", f"{RUN}/agent.sock"],
            "cwd": "/",
            "env": [],
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(names, _CAPABILITIES),
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 65536}],
        },
        "mounts": [*_mounts(spec, root), _bind(run, RUN, "rw"), _bind(program, AGENT, "ro"), *net],
        "linux": {"namespaces": [{"type": name} for name in ("pid", "mount", "uts", "ipc", "network")]},
    }


def _mounts(spec: BoxSpec, root: Path) -> list[dict[str, Any]]:
    shm = max(16, (spec.limits.memory_mb or 1024) // 2) * MIB
    mounts: list[dict[str, Any]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777", f"size={shm}"]},  # noqa: S108
    ]
    mounts += [_bind(Path(source), place, "ro") for source, place in spec.image.binds]
    for number, place in enumerate(spec.image.keep):
        mounts.append({"destination": place, "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]})
        mounts.append(_bind(root / place.lstrip("/"), f"{KEPT}/{number}", "ro"))
    return mounts


def _bind(source: Path, place: str, how: str) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": str(source), "options": ["bind", how, "nosuid", "nodev"]}
