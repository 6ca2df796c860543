"""What the workers of one kind of session may do: `Profile`."""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import Final

from ...errors import EngineUnavailableError
from ...policy import MIB
from ..deno.process import BASE_HEAP, OFFLINE, Program
from ..deno.workspace import INSIDE
from ..toolbox.process import program

__all__ = ("BUNDLE", "Profile")

BUNDLE: Final = Path(__file__).resolve().parents[2] / "_native" / "module.js"

_PROGRAM: Final = "/gloveport"
"""Where a jailed worker sees its program: stacks and `Deno.execPath()` name no directory of the host."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """One kind of worker. Equal profiles share a pool."""

    heap_mb: int | None = 128
    """V8's old generation, in MiB; `None`: V8's own default."""
    memory_mb: int = 512
    """All private memory beyond the program's own, in MiB."""
    network: bool = False
    """It reaches the network, through the broker."""
    cache: str | None = None
    """A directory of packages that is shown, read-only."""
    dom: bool = False

    def program(self) -> Program:
        """What is started. Raises `EngineUnavailableError` when a part is missing."""
        deno = program()
        if not BUNDLE.is_file():
            raise EngineUnavailableError(
                "the guest of modules is not built: reinstall gloveport from its source or wheel"
            )
        v8 = [f"--max-old-space-size={self.heap_mb + BASE_HEAP // MIB}"] if self.heap_mb is not None else []
        flags = [*OFFLINE, f"--seed={secrets.randbits(32)}", f"--allow-read={INSIDE}"]
        flags += [f"--v8-flags={','.join(v8)}"] if v8 else []
        return Program(
            "a module worker",
            (str(deno), "run", *flags, str(BUNDLE)),
            self.memory_mb * MIB,
            workspace=True,
            mounts=((f"{_PROGRAM}/deno", str(deno)), (f"{_PROGRAM}/module.js", str(BUNDLE))),
        )
