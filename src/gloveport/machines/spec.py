"""What a machine is to be: checked options, and the `spec` file that the program `box` reads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ValidationError

__all__ = ("DEFAULT_ENV", "BoxSpec", "Image", "Limits", "checked_env")

UID_BASE: Final = 1_879_048_192
"""Where the private range of user ids begins that machines of root have: 0x70000000, above what distributions and containers use
(shadow-utils gives subordinate ids below 600,100,000; systemd-nspawn and `DynamicUser` stay below 0x6fff0000)."""
UID_COUNT: Final = 65536
USER_ID: Final = 1000
MIB: Final = 1024 * 1024
DEFAULT_ENV: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "CI": "1",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    # What the network refuses is refused again: npm (11.19) would wait 70 s before it says so, pip (23.0) 8 s.
    "PIP_RETRIES": "2",
    "NPM_CONFIG_FETCH_RETRY_MINTIMEOUT": "500",
    "NPM_CONFIG_FETCH_RETRY_MAXTIMEOUT": "2000",
    "PYTHONUNBUFFERED": "1",
}
"""So that nothing asks, pages or paints: there is nobody at a keyboard."""
_SHM: Final = "/dev/shm"  # noqa: S108 (in the machine)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a machine may use. `None` means no limit of its own."""

    memory_mb: int | None = 1024
    """MiB, of everything in it together where the host can count that (`Capabilities.limits`)."""
    pids: int | None = 512
    """Processes and threads."""
    cpus: float | None = None
    """Processors' worth of time."""
    disk_mb: int | None = 4096
    """MiB of files that it has written."""
    open_files: int | None = 4096
    """Descriptors of each process."""

    def __post_init__(self) -> None:
        least = {"memory_mb": 16, "pids": 8, "disk_mb": 1, "open_files": 16}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < low):
                raise ValidationError(f"`{name}` must be a whole number of at least {low}, or None, not {value!r}")
        known = isinstance(self.cpus, (int, float)) and not isinstance(self.cpus, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if self.cpus is not None and not (known and 0.01 <= self.cpus <= 1024):
            raise ValidationError(f"`cpus` must be a number between 0.01 and 1024, or None, not {self.cpus!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Image:
    """What a machine's root is made of."""

    name: str
    layers: tuple[Path, ...]
    """Folders, the topmost first."""
    binds: tuple[tuple[str, str], ...] = ()
    """Folders of the host that are seen, read-only: source and place."""
    keep: tuple[str, ...] = ()
    """Places below those that are the machine's own."""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    workdir: str = "/workspace"
    """Where commands begin."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxSpec:
    """One machine, as its driver makes it."""

    id: str
    hostname: str
    image: Image
    limits: Limits
    env: Mapping[str, str]
    root: bool
    """Whether the machine's own root is its default user."""
    pause_after_ms: int = 0
    idle_ms: int = 0
    delete_after_ms: int | None = None
    """`None`: never. 0: as soon as it is paused."""
    wake: bool = True
    network: bool = False
    gateway_argv: tuple[str, ...] = ()
    gateway_socket: str = ""
    proxy: str = ""
    """`PORT:/SOCKET` in the machine, of drivers whose machines reach the gateway by a proxy."""
    cgroups: tuple[str, ...] = ()
    cgroup_memory: bool = False
    """Whether those limit memory: a group may be given without that controller."""
    privileged: bool = False
    """Whether the host side is root, so that the machine has a range of user ids."""

    def encode(self) -> bytes:
        """The `spec` file."""
        pairs = [*self._identity(), *self._files(), *self._limits(), *self._timers()]
        for name, value in pairs:
            if "\0" in str(value):
                raise ValidationError(f"an option of a machine holds a NUL character: {name}")
        return b"".join(f"{name}={value}\0".encode("utf-8", "surrogateescape") for name, value in pairs)

    def _identity(self) -> list[tuple[str, Any]]:
        user = 0 if self.root else USER_ID
        pairs: list[tuple[str, Any]] = [("version", 1), ("id", self.id), ("hostname", self.hostname)]
        if self.privileged:
            pairs += [("uid_base", UID_BASE), ("uid_count", UID_COUNT)]
        else:
            pairs += [("map_uid", user)]
            if self.root:  # which has no other ids: what gives files away or becomes another is told that it did
                pairs += [("fake_owners", 1)]
        home = "/root" if self.root else "/home/user"
        name = "root" if self.root else "user"
        env = {
            **DEFAULT_ENV,
            "HOME": home,
            "USER": name,
            "LOGNAME": name,
            "SHELL": "/bin/sh",
            **self.image.env,
            **self.env,
        }
        pairs += [("uid", user), ("gid", user), ("cwd", self.image.workdir), ("shell", "/bin/sh")]
        return pairs + [("env", f"{key}={value}") for key, value in env.items()]

    def _files(self) -> list[tuple[str, Any]]:
        pairs: list[tuple[str, Any]] = [("lower", str(layer)) for layer in self.image.layers]
        pairs += [("bind_ro", f"{source}:{place}") for source, place in self.image.binds]
        pairs += [("bind_keep", place) for place in self.image.keep]
        shm = max(16, (self.limits.memory_mb or 1024) // 2) * MIB
        pairs += [("upper", "disk"), ("tmpfs", f"{_SHM}:1777:{shm}:65536"), ("tmpfs", f"/run:755:{16 * MIB}:16384")]
        return pairs

    def _limits(self) -> list[tuple[str, Any]]:
        limits = self.limits
        pairs: list[tuple[str, Any]] = [("cgroup", folder) for folder in self.cgroups]
        given = {
            "memory_max": limits.memory_mb and limits.memory_mb * MIB,
            "pids_max": limits.pids,
            "nofile": limits.open_files,
            "disk_max": limits.disk_mb and limits.disk_mb * MIB,
            "cpu_ms_per_s": limits.cpus and max(1, round(limits.cpus * 1000)),
        }
        pairs += [(name, value) for name, value in given.items() if value]
        return [*pairs, ("limits", "cgroup" if self.cgroup_memory else "rlimit")]

    def _timers(self) -> list[tuple[str, Any]]:
        pairs: list[tuple[str, Any]] = [("wake", int(self.wake)), ("network", "gateway" if self.network else "none")]
        pairs += [("pause_after_ms", self.pause_after_ms), ("idle_ms", self.idle_ms)]
        if self.delete_after_ms is not None:
            pairs += [("delete_after_ms", max(1, self.delete_after_ms))]
        pairs += [("gateway_argv", argument) for argument in self.gateway_argv]
        pairs += [("proxy", self.proxy)] if self.proxy else []
        return pairs + ([("gateway_socket", self.gateway_socket)] if self.gateway_socket else [])


def checked_env(what: str, env: Mapping[str, str] | None) -> dict[str, str]:
    """The variables. Raises `ValidationError` for what no program can be given."""
    found = dict(env or {})
    for name, value in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValidationError(f"`{what}` has a name that is none: {name!r}", hint="letters, digits and `_`")
        if not isinstance(value, str) or "\0" in value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValidationError(f"`{what}[{name!r}]` must be a text without NUL")
    return found
