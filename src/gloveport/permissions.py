"""What an application grants a module worker beyond the default, as plain data: `Runtime` and `RuntimePermissions`."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from .policy import NetworkRules, SandboxMode, check_count

__all__ = ("Runtime", "RuntimePermissions")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOADERS: Final = ("LD_", "DENO_", "GLIBC_", "MALLOC_", "NODE_", "V8_")
"""Variables that the loader or the engine itself obeys."""
_SYS: Final = frozenset(
    (
        *("hostname", "osRelease", "osUptime", "loadavg", "networkInterfaces", "systemMemoryInfo", "uid", "gid"),
        *("cpus", "homedir", "getegid", "statfs", "getPriority", "userInfo", "username"),
    )
)
"""What `--allow-sys` of Deno 2.9.8 knows, but for setting the priority of processes."""
_TAKEN: Final = ("/workspace", "/gloveport", "/proc", "/dev", "/sys")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuntimePermissions:
    """What modules may do. Nothing is granted that is not listed: an empty list means nothing, never everything.

    Raises `TypeError` and `ValueError` for what cannot be granted.
    """

    allow_read: tuple[str, ...] = ()
    """Absolute paths of files and directories of the host that modules read, under the same paths."""
    allow_write: tuple[str, ...] = ()
    """Absolute paths of directories that modules read and write. Their files have to be open to others than their owner when the
    application runs as root: the worker has a user id of its own."""
    allow_env: tuple[str, ...] = ()
    """Names of environment variables of the host. Their values are those at the start of the worker; there is nothing else in it."""
    allow_sys: tuple[str, ...] = ()
    """What modules may ask about the system, as Deno names it: `"hostname"`, `"cpus"` … They learn what the jail shows."""
    allow_net: NetworkRules | None = None
    """Where modules may connect to; `None`: nowhere."""
    allow_run: tuple[str, ...] = ()
    """Always refused: a second program has no place in this jail."""
    allow_ffi: tuple[str, ...] = ()
    """Always refused: native code is not held by Deno's permissions."""

    def __post_init__(self) -> None:
        for name in ("allow_read", "allow_write", "allow_env", "allow_sys", "allow_run", "allow_ffi"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        for name in ("allow_run", "allow_ffi"):
            if getattr(self, name):
                raise ValueError(
                    f"`{name}` cannot be granted to a module: run programs and native code in a Linux machine"
                )
        for name in ("allow_read", "allow_write"):
            for path in getattr(self, name):
                _check_path(name, path)
        for variable in self.allow_env:
            if not _NAME.fullmatch(variable) or variable.upper().startswith(_LOADERS):
                raise ValueError(f"`allow_env`: {variable!r} is no variable that can be given to a module")
        unknown = [kind for kind in self.allow_sys if kind not in _SYS]
        if unknown:
            raise ValueError(f"`allow_sys`: there is no {unknown[0]!r}; there are {', '.join(sorted(_SYS))}")
        if self.allow_net is not None and not isinstance(self.allow_net, NetworkRules):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`allow_net` must be `NetworkRules` or None, not {self.allow_net!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runtime:
    """A worker as the application wants it: `TypeScriptSandboxSession(runtime=Runtime(permissions=…))`.

    Raises `TypeError` and `ValueError` for what cannot be.
    """

    permissions: RuntimePermissions = dataclasses.field(default_factory=RuntimePermissions)
    max_old_generation_size_mb: int | None = 128
    """V8's heap in MiB; `None` leaves it to V8."""
    max_memory_mb: int = 512
    """All private memory of the process beyond what it takes by itself, in MiB."""
    sandbox: SandboxMode = "require"

    def __post_init__(self) -> None:
        if not isinstance(self.permissions, RuntimePermissions):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`permissions` must be `RuntimePermissions`, not {self.permissions!r}")
        if self.max_old_generation_size_mb is not None:
            check_count("max_old_generation_size_mb", self.max_old_generation_size_mb, least=16, most=4096)
        check_count("max_memory_mb", self.max_memory_mb, least=64, most=65536)
        if self.sandbox not in ("require", "auto", "off"):
            raise ValueError(f"`sandbox` must be 'require', 'auto' or 'off', not {self.sandbox!r}")


def _texts(name: str, given: object) -> tuple[str, ...]:
    if isinstance(given, (str, bytes, bool)) or given is None:
        raise TypeError(f"`{name}` must be a list of texts, not {given!r}")
    texts = tuple(given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    for text in texts:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must hold texts, not {text!r}")
    return texts  # pyright: ignore[reportUnknownVariableType]


def _check_path(name: str, path: str) -> None:
    parts = path.split("/")
    if not path.startswith("/") or len(parts) < 2 or not all(part not in ("", ".", "..") for part in parts[1:]):
        raise ValueError(
            f"`{name}`: {path!r} must be an absolute path without `.`, `..` or `//`, and not the root directory"
        )
    if "," in path or "\0" in path or "\n" in path:
        raise ValueError(f"`{name}`: {path!r} has a character that cannot be passed on: `,`, a newline or NUL")
    if any(path == taken or path.startswith(f"{taken}/") for taken in _TAKEN):
        raise ValueError(f"`{name}`: {path!r} is a path that the jail has for itself")
