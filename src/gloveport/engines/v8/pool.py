"""The supply of workers of the v8 engine."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from ...errors import EngineUnavailableError
from ...policy import MIB, SandboxMode
from ..deno.bell import INSIDE as BELL
from ..deno.pool import Pools, WorkerPool
from ..deno.process import BASE_HEAP, OFFLINE, Program
from ..toolbox.process import program
from .build import BUNDLE

__all__ = ("V8Pool", "v8_pool")


class V8Pool(WorkerPool):
    """Workers whose sessions have `max_memory` bytes."""

    def __init__(self, *, sandbox: SandboxMode, max_memory: int, spares: int = 2) -> None:
        super().__init__(lambda: worker_program(max_memory), sandbox, name="v8", spares=spares)
        self.max_memory: Final = max_memory


def worker_program(max_memory: int, bundle: Path | None = None) -> Program:
    """The program of a worker with that much memory. Raises `EngineUnavailableError` when a part is missing."""
    deno, bundle = program(), bundle or BUNDLE
    if not bundle.is_file():
        raise EngineUnavailableError("the v8 guest is not built: reinstall gloveport from its source or wheel")
    v8 = (
        f"--max-old-space-size={(max_memory + BASE_HEAP) // MIB}",
        "--disallow-code-generation-from-strings",  # of the program's own realm; a session's has its own setting
    )
    # What the engine seeds by itself is out of a session's reach; V8 also places its code by it, so every worker has another.
    seed = f"--seed={secrets.randbits(32)}"
    reads = f"--allow-read={BELL}"  # given up as soon as it is open
    argv = (str(deno), "run", *OFFLINE, reads, seed, f"--v8-flags={','.join(v8)}", str(bundle), BELL)
    return Program("a v8 worker", argv, max_memory, readable=(str(deno), str(bundle)), bell=True)


_pools: Final = Pools[tuple[SandboxMode, int]](lambda key: V8Pool(sandbox=key[0], max_memory=key[1]))


def v8_pool(sandbox: SandboxMode, max_memory: int) -> WorkerPool:
    """This process's workers of that size under that mode."""
    return _pools.get((sandbox, max_memory))
