"""Where a session's guest comes from: a worker process of its own, a shared one, or this process."""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

from ...policy import Isolation, SandboxMode
from .link import InlineLink, Link, ProcessLink

__all__ = ("WasmEngine",)


class WasmEngine:
    """Opens guests of one kind. Cheap: pools and the compiled module belong to the process."""

    def __init__(self, *, isolation: Isolation, sandbox: SandboxMode, max_memory: int, group: str = "default") -> None:
        self.isolation: Isolation = isolation
        self.sandbox: SandboxMode = sandbox
        self.max_memory = max_memory
        self.group = group

    @property
    def build(self) -> str:
        """SHA-256 of the guest build that images of this engine belong to."""
        from .build import guest_build

        return guest_build()

    def open(self) -> Link:
        """A fresh guest on the base image."""
        if self.isolation == "inline":
            return self._inline()
        pool = worker_pool(self.sandbox)
        if self.isolation == "process":
            return ProcessLink(pool.take(), self.max_memory)
        return ProcessLink(pool.open_shared(self.group), self.max_memory, alone=False)

    async def open_async(self) -> Link:
        """The same on an event loop; starting the first worker takes a fraction of a second, in a thread."""
        if self.isolation == "process":
            return ProcessLink(await worker_pool(self.sandbox).take_async(), self.max_memory)
        if self.isolation == "inline":
            return self._inline()
        import asyncio

        return await asyncio.to_thread(self.open)

    def _inline(self) -> Link:
        from .watchdog import watchdog

        spares = _spares()
        # Asked for each time: a forked copy of the process has a watchdog of its own.
        return InlineLink(
            spares.take(self.max_memory),
            lambda guest, limit: watchdog().arm(guest, limit),
            lambda token: watchdog().disarm(token),
            spares.give_back,
        )


_lock = threading.Lock()
_pools: dict[str, Any] = {}
_inline: list[Any] = []


def worker_pool(sandbox: SandboxMode) -> Any:
    """This process's workers under that mode; started by the first session. (A pool is fork-safe by itself.)"""
    from .pool import WorkerPool

    with _lock:
        pool = _pools.get(sandbox)
        if pool is None:
            pool = _pools[sandbox] = WorkerPool(sandbox=sandbox)
        return pool


def _spares() -> Any:
    """Of this process, with its compiled module."""
    if _inline:
        return _inline[0]
    from .module import GuestModule
    from .spares import Spares

    with _lock:
        if not _inline:
            _inline.append(Spares(GuestModule.load()))
            atexit.register(
                _inline.clear
            )  # wasmtime cannot free it once the interpreter has taken its module apart (seen with 50.0.1)
        return _inline[0]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
