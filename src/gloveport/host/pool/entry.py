"""One session as a pool sees it: who holds it, who waits for it, and what is awake of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ...errors import SessionBusyError
from .live import LiveSession
from .names import Name
from .tenure import Tenure, now

if TYPE_CHECKING:
    from .handle import PooledSession

__all__ = ("Entry",)


class Entry:
    """Exists while someone holds the session or waits for it, or while it is awake."""

    __slots__ = ("_taken", "_waiting", "evicting", "handle", "last_used", "live", "lock", "name", "slot", "tenure")

    def __init__(self, name: Name) -> None:
        self.name = name
        self.live: LiveSession | None = None
        self.handle: PooledSession | None = None
        self.tenure: Tenure | None = None
        """The lease, while this host holds it."""
        self.slot = False
        """Whether it has one of the pool's slots for workers."""
        self.lock = asyncio.Lock()
        """Held by an operation, and by what puts the session to sleep."""
        self.evicting = False
        self.last_used = now()
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self, deadline: float) -> None:
        """Be the only one in this process who has the session; in the order of asking. Raises `SessionBusyError`."""
        if not self._taken:
            self._taken = True
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait_for(asyncio.shield(waiter), max(0.0, deadline - now()))
        except BaseException as error:
            if waiter.done():  # it came in the last moment
                self.pass_turn()
            else:
                self._waiting.remove(waiter)
            if isinstance(error, TimeoutError):
                raise SessionBusyError(f"{self.name} is in use in this process, and was not released in time") from None
            raise

    def pass_turn(self) -> None:
        """Let the next one have it."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._taken = False

    @property
    def unused(self) -> bool:
        """Whether the pool may forget it."""
        return not self._taken and self.live is None and not self.lock.locked()

    @property
    def waiting(self) -> int:
        """How many wait for it."""
        return len(self._waiting)
