"""What the workers of one kind of session may do: `Profile`."""

from __future__ import annotations

import dataclasses
import os
import secrets
from pathlib import Path
from typing import Final

from ...errors import EngineUnavailableError
from ...permissions import RuntimePermissions
from ...policy import MIB
from ..deno.process import BASE_HEAP, ENVIRONMENT, OFFLINE, Program
from ..deno.workspace import INSIDE
from ..jail.network import FILES
from ..toolbox.process import program

__all__ = ("BUNDLE", "Profile")

BUNDLE: Final = Path(__file__).resolve().parents[2] / "_native" / "module.js"

_PROGRAM: Final = "/gloveport"
"""Where a jailed worker sees its program: stacks and `Deno.execPath()` name no directory of the host."""
_CERTIFICATES: Final = f"{_PROGRAM}/authorities.pem"


@dataclasses.dataclass(frozen=True, slots=True)
class PackageCache:
    """Packages that were fetched, as a worker is given them: it reads nothing else, and fetches nothing."""

    directory: str
    """What Deno calls DENO_DIR."""
    npm_registry: str
    jsr_registry: str
    min_age: int
    """Minutes: a worker has to come to the same versions as whoever fetched them."""
    lock: str | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """What is in there. Deno also keeps databases beside them, whose locks a stopped worker would hold (seen with 2.9.8)."""
        return tuple(f"{self.directory}/{name}" for name in ("npm", "remote"))

    @property
    def environment(self) -> dict[str, str]:
        """Where packages came from is part of where they are kept."""
        return {"DENO_DIR": self.directory, "NPM_CONFIG_REGISTRY": self.npm_registry, "JSR_URL": self.jsr_registry}

    @property
    def flags(self) -> tuple[str, ...]:
        """In place of those that forbid packages. Packages look for variables of their environment, which is empty but for ours."""
        lock = ("--frozen", f"--lock={self.lock}") if self.lock else ("--no-lock",)
        age = f"--min-dep-age={self.min_age}"
        return ("--no-prompt", "--cached-only", "--no-config", "--quiet", "--allow-import", "--allow-env", age, *lock)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """One kind of worker. Equal profiles share a pool."""

    heap_mb: int | None = 128
    """V8's old generation, in MiB; `None`: V8's own default."""
    memory_mb: int = 512
    """All private memory beyond the program's own, in MiB."""
    network: bool = False
    """It has a network, which leads to the gateway."""
    certificates: str | None = None
    """A file (PEM) of authorities that it trusts beside those of Deno, when it has a network."""
    cache: PackageCache | None = None
    """Packages that it reads."""
    dom: bool = False
    permissions: RuntimePermissions = dataclasses.field(default_factory=RuntimePermissions)

    def program(self) -> Program:
        """What is started. Raises `EngineUnavailableError` when a part is missing."""
        deno = program()
        if not BUNDLE.is_file():
            raise EngineUnavailableError(
                "the guest of modules is not built: reinstall gloveport from its source or wheel"
            )
        granted, cache = self.permissions, self.cache
        flags = [*(OFFLINE if cache is None else cache.flags), f"--seed={secrets.randbits(32)}"]
        if self.heap_mb is not None:
            flags.append(f"--v8-flags=--max-old-space-size={self.heap_mb + BASE_HEAP // MIB}")
        shown = (INSIDE, *granted.allow_read, *granted.allow_write, *(cache.folders if cache else ()))
        flags.append(f"--allow-read={','.join(shown)}")
        for kind in ("write", "env", "sys"):
            words: tuple[str, ...] = getattr(granted, f"allow_{kind}")
            flags += [f"--allow-{kind}={','.join(words)}"] if words else []
        environment = {
            **ENVIRONMENT,
            "LANG": "en_US.UTF-8",
            **(cache.environment if cache else {}),
            **{name: os.environ[name] for name in granted.allow_env if name in os.environ},
        }
        mounts = [(f"{_PROGRAM}/deno", str(deno)), (f"{_PROGRAM}/module.js", str(BUNDLE))]
        if self.network:
            flags.append("--allow-net")
            environment["DENO_NO_UPDATE_CHECK"] = "1"  # else it asks for newer versions (seen with Deno 2.9.8)
            _check_names((*granted.allow_read, *granted.allow_write))
        if self.certificates is not None:
            mounts.append((_CERTIFICATES, self.certificates))
            environment["DENO_CERT"] = _CERTIFICATES
        return Program(
            f"a module worker{' with a network' if self.network else ''}{' with packages' if cache else ''}",
            (str(deno), "run", *flags, str(BUNDLE), *granted.allow_env),
            self.memory_mb * MIB,
            environment=environment,
            workspace=True,
            readable=(*(cache.folders if cache else ()), *((cache.lock,) if cache and cache.lock else ())),
            mounts=(*mounts, *_found("allow_read", granted.allow_read)),
            writable=_found("allow_write", granted.allow_write),
            network=self.network,
        )


def _check_names(paths: tuple[str, ...]) -> None:
    """A worker with a network has files of its own for looking up names."""
    for path in paths:
        if any(own == path or own.startswith(f"{path}/") for own, _ in FILES):
            raise EngineUnavailableError(f"{path} cannot be shown to a worker that has a network: it has its own there")


def _found(option: str, paths: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each path with the one that it really is: mounts do not follow symbolic links."""
    for path in paths:
        if not (os.path.isdir(path) if option == "allow_write" else os.path.exists(path)):
            raise EngineUnavailableError(f"`{option}`: {path} does not exist, or is no directory")
    return tuple((path, os.path.realpath(path)) for path in paths)
