"""One background event loop per process, for async tools of blocking sessions. Started by the first of them."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

__all__ = ("Portal", "await_on_portal", "portal")


class Portal:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def submit(
        self, function: Callable[[], Awaitable[Any]], deliver: Callable[[Any, BaseException | None], None]
    ) -> Future[None]:
        """Await `function()` on the loop; `deliver(value, error)` is called there."""

        async def job() -> None:
            try:
                value = await function()
            except BaseException as error:
                deliver(None, error)
                return
            deliver(value, None)

        return asyncio.run_coroutine_threadsafe(job(), self._running())

    def run(self, function: Callable[[], Awaitable[Any]], context: contextvars.Context | None = None) -> Any:
        """Await `function()` on the loop and block for its value. In that context, or a copy of the current one."""

        async def job() -> Any:
            return await function()

        def submit() -> Future[Any]:
            return asyncio.run_coroutine_threadsafe(job(), self._running())

        return (submit() if context is None else context.run(submit)).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="gloveport-portal", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            return self._loop

    def close(self) -> None:
        """End the loop, if no tool holds it up."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or self._owner != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1.0)
        if not thread.is_alive():
            self._loop = None
            loop.close()


_current = Portal()


def portal() -> Portal:
    """This process's background loop."""
    return _current


def await_on_portal(awaitable: Awaitable[Any]) -> Any:
    """Await something on it from blocking code."""
    return portal().run(lambda: awaitable)


_parents: list[Portal] = []


def _renew() -> None:
    global _current
    _parents.append(_current)  # kept: its loop is the parent's, and would complain of not being closed here
    _current = Portal()


os.register_at_fork(after_in_child=_renew)
