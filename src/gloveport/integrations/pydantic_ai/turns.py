"""Who may run at the same time: calls overlap, one that must run alone waits for those before it and holds up those after it.

The same rule as Pydantic AI's for `sequential=True` tools that a model calls directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ("Turns",)


class _Turn:
    def __init__(self, alone: bool) -> None:
        self.alone = alone
        self.over = asyncio.Event()


class Turns:
    """The calls under way, in the order they were made."""

    def __init__(self) -> None:
        self._open: list[_Turn] = []

    @asynccontextmanager
    async def take(self, *, alone: bool) -> AsyncGenerator[None]:
        """Hold a turn. Its place in the order is that of this call."""
        earlier = [turn for turn in self._open if alone or turn.alone]
        mine = _Turn(alone)
        self._open.append(mine)
        try:
            for turn in earlier:
                await turn.over.wait()
            yield
        finally:
            self._open.remove(mine)
            mine.over.set()
