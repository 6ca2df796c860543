"""A store as an event loop uses it, and a lease as its holder sees it."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

from ...errors import LeaseHeld, LeaseLost, StoreUnavailable
from ...stores import Lease, MemoryStore, Store

__all__ = ("StoreAccess", "Tenure", "now")

T = TypeVar("T")
_THREADS: Final = 16
_POLL: Final = (0.01, 0.25)
"""Seconds between two looks at a lease that someone else holds: the first, and the longest."""
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds that also pass while the machine sleeps: a lease does not wait for whoever holds it."""
    return time.clock_gettime(_CLOCK)


class StoreAccess:
    """A store's methods without blocking the loop. What was begun is finished: a caller that is cancelled waits until it is."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._here = isinstance(store, MemoryStore)
        self._threads: anyio.CapacityLimiter | None = None

    async def perform(
        self, function: Callable[..., T], *arguments: Any, then: Callable[[T], None] | None = None, **keywords: Any
    ) -> T:
        """Call a method of the store. `then` is called with what it gave, also when the caller is cancelled meanwhile."""
        if self._here:
            result = function(*arguments, **keywords)
        else:
            result = await self._finished(functools.partial(function, *arguments, **keywords), then)
        if then is not None:
            then(result)
        return result

    async def _finished(self, call: Callable[[], T], then: Callable[[T], None] | None) -> T:
        if (
            self._threads is None
        ):  # threads of our own: tools that hang in threads must not keep a lease from being renewed
            self._threads = anyio.CapacityLimiter(_THREADS)
        task = asyncio.ensure_future(anyio.to_thread.run_sync(call, limiter=self._threads))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
            if task.exception() is None and then is not None:
                then(task.result())
            raise


class Tenure:
    """A lease that is held.

    Its time is counted from before it was asked for, so that it ends here no later than in the store. In doubt (less than a quarter is
    left) the store is asked before anything goes on.
    """

    def __init__(self, access: StoreAccess, lease: Lease, since: float) -> None:
        self._access = access
        self.lease = lease
        self._since = since

    @classmethod
    async def take(cls, access: StoreAccess, key: str, owner: str, ttl: float, deadline: float) -> Tenure:
        """Take the lease, or wait until `deadline` (of `now`) for whoever holds it. Raises `LeaseHeld`."""
        pause = _POLL[0]
        while True:
            since = now()
            given: list[Lease] = []
            try:
                return cls(
                    access, await access.perform(access.store.acquire, key, owner, ttl, then=given.append), since
                )
            except asyncio.CancelledError:
                for lease in given:  # nobody will use it
                    await access.perform(access.store.release, lease)
                raise
            except LeaseHeld:
                left = deadline - now()
                if left <= 0:
                    raise
                await anyio.sleep(min(pause, left))
                pause = min(pause * 2, _POLL[1])

    @property
    def token(self) -> int:
        """What writes carry."""
        return self.lease.token

    @property
    def left(self) -> float:
        """Seconds until it ends."""
        return self._since + self.lease.ttl - now()

    @property
    def store_time(self) -> float:
        """The store's clock, as epoch seconds: as it was when the lease was given, and what passed since."""
        return self.lease.now + max(0.0, now() - self._since)

    async def renew(self) -> None:
        """Begin its time anew. Raises `LeaseLost`, and `StoreUnavailable`."""
        since = now()
        self.lease = await self._access.perform(self._access.store.renew, self.lease)
        self._since = since

    async def ensure(self) -> None:
        """Return only while it is held for sure. Raises `LeaseLost`."""
        if self.left > self.lease.ttl / 4:
            return
        try:
            await self.renew()
        except StoreUnavailable as error:
            if self.left <= 0:
                raise LeaseLost(
                    f"the lease of record {self.lease.key!r} could not be renewed in time: {error}"
                ) from error
