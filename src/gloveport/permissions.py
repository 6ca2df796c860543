"""What an application grants a module worker beyond the default, as plain data: `Packages`, `Runtime`, `RuntimePermissions`."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from typing import Final
from urllib.parse import urlsplit

from .policy import MIB, NetworkRules, SandboxMode, check_count, check_seconds, host_name

__all__ = ("Packages", "Runtime", "RuntimePermissions")

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


# ── packages ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_DAY: Final = 86400.0
_ALLOW_RULE: Final = re.compile(
    r"(npm:(\*|(@[a-z0-9._~-]+/)?(\*|[A-Za-z0-9._~-]+))|jsr:(\*|@[a-z0-9-]+/(\*|[a-z0-9-]+)))"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packages:
    """Which packages modules may import, and where they come from. Sizes are bytes, times seconds.

    A package that is allowed may have dependencies that are not named. Raises `ValueError` for what a rule cannot mean.
    """

    allow: tuple[str, ...] = ("npm:*", "jsr:*", "https://*")
    """`npm:name`, `npm:@scope/*`, `npm:*`, `jsr:@scope/name`, `jsr:@scope/*`, `jsr:*`; of module URLs a beginning that ends with a `/`:
    `https://esm.sh/`, or `https://*` for every public host. `http://` only where a rule names the host."""
    deny: tuple[str, ...] = ()
    """Wins over `allow`."""
    lock: str | None = None
    """A `deno.lock`: only what it holds is imported, in exactly those versions."""
    min_age: float = _DAY
    """How old a version of an npm or JSR package has to be, so that one which was taken over is noticed before it is used. 0: no matter."""
    max_bytes: int = 512 * MIB
    """What the cache of these packages may take on disk. An import that has no room is refused; what is there can be imported."""
    timeout: float = 120.0
    """Fetching what one module imports."""
    cache: str | None = None
    """A directory of its own for what is fetched; `None`: one in the user's cache. It can be copied to a machine without a network."""
    offline: bool = False
    """Nothing is fetched: only what `cache` holds."""
    npm_registry: str = "https://registry.npmjs.org/"
    jsr_registry: str = "https://jsr.io/"
    private: tuple[str, ...] = ()
    """Networks and addresses that are not public, and that registries and module hosts may have: `"10.1.0.0/16"`, `"127.0.0.1"`."""

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            rules = _texts(name, getattr(self, name))
            for rule in rules:
                _check_rule(rule)
            object.__setattr__(self, name, rules)
        networks = (self.private,) if isinstance(self.private, str) else self.private
        object.__setattr__(self, "private", tuple(str(ipaddress.ip_network(network)) for network in networks))
        for name in ("lock", "cache"):
            value: str | None = getattr(self, name)
            object.__setattr__(self, name, None if value is None else os.path.abspath(os.fspath(value)))
        for name in ("npm_registry", "jsr_registry"):
            _check_url(name, getattr(self, name))
            object.__setattr__(self, name, getattr(self, name).rstrip("/") + "/")
        check_count("max_bytes", self.max_bytes, least=1)
        check_seconds("timeout", self.timeout)
        if self.min_age != 0:
            check_seconds("min_age", self.min_age)


def _check_rule(rule: object) -> None:
    if not isinstance(rule, str):
        raise TypeError(f"a package rule is a text, not {rule!r}")
    if rule == "https://*" or _ALLOW_RULE.fullmatch(rule):
        return
    if rule.startswith(("https://", "http://")):
        _check_url("the package rule", rule)
        if not rule.endswith("/"):
            raise ValueError(f"the package rule {rule!r} must end with a `/`: it means all URLs that begin so")
        return
    raise ValueError(
        f"the package rule {rule!r} cannot be read: write `npm:name`, `npm:@scope/*`, `jsr:@scope/name`, or a URL that ends with a `/`"
    )


def _check_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host_name(parts.hostname or "")
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{name} {url!r}: {error}") from None
    if parts.scheme not in ("https", "http") or parts.username or parts.query or parts.fragment:
        raise ValueError(f"{name} must be an http(s) URL without a user name and a query, not {url!r}")
