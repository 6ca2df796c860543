"""How many sessions have a worker at the same time: whoever is idle longest makes room, and whoever waits longest gets it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

__all__ = ("Slots",)

E = TypeVar("E", bound=Hashable)


class Slots(Generic[E]):
    """`most` slots. `evict(holder)` takes the slot of a holder that is idle."""

    def __init__(self, most: int, evict: Callable[[E], Awaitable[None]]) -> None:
        self.most = most
        self._evict = evict
        self._taken = 0
        self._idle: OrderedDict[E, None] = OrderedDict()
        """Holders that nobody uses at this moment, least recently used first."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._evictions: set[asyncio.Task[None]] = set()

    @property
    def taken(self) -> int:
        """Slots in use."""
        return self._taken

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._waiting)

    async def take(self, timeout: float) -> None:
        """A slot. Raises `TimeoutError` when none became free."""
        if self._taken < self.most and not self._waiting:
            self._taken += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._make_room()
        try:
            await asyncio.wait_for(asyncio.shield(waiter), timeout)
        except BaseException:
            if waiter.done() and not waiter.cancelled():  # it came in the last moment
                self.give()
            else:
                self._waiting.remove(waiter)
            raise

    def give(self) -> None:
        """Give a slot back: to whoever waits longest."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._taken -= 1

    def idle(self, holder: E) -> None:
        """Nobody uses what that holder keeps in its slot."""
        self._idle[holder] = None
        self._idle.move_to_end(holder)
        self._make_room()

    def busy(self, holder: E) -> None:
        """Someone does, or there is nothing in it any more."""
        self._idle.pop(holder, None)

    def _make_room(self) -> None:
        while self._idle and len(self._evictions) < len(self._waiting):
            holder, _ = self._idle.popitem(last=False)
            task = asyncio.get_running_loop().create_task(self._run(holder))
            self._evictions.add(task)
            task.add_done_callback(self._evictions.discard)

    async def _run(self, holder: E) -> None:
        await self._evict(holder)

    async def settle(self) -> None:
        """Wait until no eviction is under way."""
        while self._evictions:
            await asyncio.wait(list(self._evictions))
