"""What the workers of one kind of session may do: `Profile`."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import Final

from ...errors import EngineUnavailableError
from ...policy import MIB
from ..deno.authorities import extra_authorities
from ..deno.process import BASE_HEAP, ENVIRONMENT, OFFLINE, Program
from ..deno.workspace import INSIDE
from ..toolbox.process import program

__all__ = ("BUNDLE", "Profile")

BUNDLE: Final = Path(__file__).resolve().parents[2] / "_native" / "module.js"


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
    cache: PackageCache | None = None
    """Packages that it reads."""
    dom: bool = False

    def program(self) -> Program:
        """What is started. Raises `EngineUnavailableError` when a part is missing."""
        deno = program()
        if not BUNDLE.is_file():
            raise EngineUnavailableError(
                "the guest of modules is not built: reinstall gloveport from its source or wheel"
            )
        v8 = [f"--max-old-space-size={self.heap_mb + BASE_HEAP // MIB}"] if self.heap_mb is not None else []
        cache = self.cache
        shown = [INSIDE] if cache is None else [INSIDE, *cache.folders]
        flags = [
            *(OFFLINE if cache is None else cache.flags),
            f"--seed={secrets.randbits(32)}",
            f"--allow-read={','.join(shown)}",
        ]
        flags += [f"--v8-flags={','.join(v8)}"] if v8 else []
        argv = (str(deno), "run", *flags, *(["--allow-net"] if self.network else []), str(BUNDLE))
        certificates = extra_authorities() if self.network else None
        return Program(
            f"a module worker{' with a network' if self.network else ''}{' with packages' if cache else ''}",
            argv,
            self.memory_mb * MIB,
            environment={
                **ENVIRONMENT,
                **({"DENO_CERT": certificates} if certificates else {}),
                **(cache.environment if cache else {}),
            },
            workspace=True,
            readable=tuple(
                path
                for path in (certificates, *(cache.folders if cache else ()), cache and cache.lock)
                if path is not None
            ),
            network=self.network,
        )
