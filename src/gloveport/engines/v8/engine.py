"""Where a session's guest comes from: a worker process of its own."""

from __future__ import annotations

from typing import Final

from ...policy import Isolation, SandboxMode
from ..defaults import toolbox
from ..wasm.link import Link
from .link import V8Link

__all__ = ("V8Engine",)


class V8Engine:
    """Opens guests of one size. Cheap: pools belong to the process."""

    isolation: Final[Isolation] = "process"

    def __init__(self, *, sandbox: SandboxMode, max_memory: int) -> None:
        self.sandbox: SandboxMode = sandbox
        self.max_memory = max_memory

    @property
    def build(self) -> str:
        """SHA-256 of the guest build."""
        from .build import v8_build

        return v8_build()

    def open(self) -> Link:
        """A fresh guest."""
        from .pool import v8_pool

        toolbox(self.sandbox).prepare()  # whatever declares something goes there first
        return V8Link(v8_pool(self.sandbox, self.max_memory).take(), self.max_memory)

    async def open_async(self) -> Link:
        """The same on an event loop; starting the first worker takes a fraction of a second, in a thread."""
        from .pool import v8_pool

        toolbox(self.sandbox).prepare()
        return V8Link(await v8_pool(self.sandbox, self.max_memory).take_async(), self.max_memory)
