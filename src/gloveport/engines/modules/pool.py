"""The supply of workers for modules."""

from __future__ import annotations

from typing import Final

from ...policy import SandboxMode
from ..deno.pool import Pools, WorkerPool
from .profile import Profile

__all__ = ("module_pool",)


def _made(key: tuple[SandboxMode, Profile]) -> WorkerPool:
    sandbox, profile = key
    return WorkerPool(profile.program, sandbox, name="module")


_pools: Final = Pools[tuple[SandboxMode, Profile]](_made)


def module_pool(sandbox: SandboxMode, profile: Profile) -> WorkerPool:
    """This process's workers of that profile under that mode."""
    return _pools.get((sandbox, profile))
