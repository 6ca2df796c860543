"""Names to addresses, in threads: the system's resolver knows no deadline."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..errors import HttpFetchError, HttpFetchTimeout

__all__ = ("Lookups", "Resolver", "system_resolver")

Resolver = Callable[[str, int], Iterable[str]]
"""`resolver(host, port)` gives addresses as texts; raises `OSError` for a name that has none. Called in a thread of its own."""

_MOST: Final = 64
_Outcome = tuple[Sequence[str], BaseException | None]


def system_resolver(host: str, port: int) -> list[str]:
    """The addresses that the operating system gives for a name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Lookups:
    """Look-ups with a deadline. One that is late is left behind; at most `most` of them at a time (default 64)."""

    def __init__(self, resolver: Resolver, most: int = _MOST) -> None:
        self._resolver = resolver
        self._free = threading.BoundedSemaphore(most)

    def blocking(self, host: str, port: int, deadline: float) -> Sequence[str]:
        """The addresses; waits until `deadline` (`time.monotonic`)."""
        done: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._start(host, port, done.put)
        try:
            outcome = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise HttpFetchTimeout(f"{host} was not resolved in time") from None
        return _addresses(host, outcome)

    async def awaited(self, host: str, port: int) -> Sequence[str]:
        """The same on the running event loop; whoever awaits it has the clock."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()

        def settle(outcome: _Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        def deliver(outcome: _Outcome) -> None:
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:  # the loop is closed: nobody waits any more
                pass

        self._start(host, port, deliver)
        return _addresses(host, await future)

    def _start(self, host: str, port: int, deliver: Callable[[_Outcome], Any]) -> None:
        if not self._free.acquire(blocking=False):
            raise HttpFetchError("too many names are being resolved: try again later")

        def resolve() -> None:
            try:
                outcome: _Outcome = ([str(address) for address in self._resolver(host, port)], None)
            except BaseException as error:  # whoever waits gets it
                outcome = ((), error)
            finally:
                self._free.release()
            deliver(outcome)

        try:
            threading.Thread(target=resolve, name="gloveport-resolve", daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise HttpFetchError("no thread is left for resolving a name") from None


def _addresses(host: str, outcome: _Outcome) -> Sequence[str]:
    found, error = outcome
    if isinstance(error, (OSError, UnicodeError)) or (error is None and not found):
        raise HttpFetchError(f"{host} cannot be resolved") from None
    if error is not None:
        raise error
    return found
