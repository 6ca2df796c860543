"""The calls of an asyncio session: tasks and threads, and waiting for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ..core.commands import Awaited
from ..tools.bridge import Prepared
from .driver import Driver
from .threads import tool_threads

__all__ = ("TaskCalls",)


class TaskCalls(Driver):
    """Async tools are tasks of the running loop, sync ones run in threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiter: asyncio.Future[None] | None = None

    def start_tool(self, prepared: Prepared) -> None:
        self._unstarted.append(prepared)

    def _start_thread(self, loop: asyncio.AbstractEventLoop, prepared: Prepared) -> None:
        tool_threads().submit(
            prepared.invoke, lambda value, error: self.arrived_elsewhere(loop, prepared, value, error)
        )

    def arrived_elsewhere(
        self, loop: asyncio.AbstractEventLoop, prepared: Prepared, value: Any, error: BaseException | None
    ) -> None:
        """What came of a call, in any thread."""
        try:
            loop.call_soon_threadsafe(self.arrived, prepared, value, error)
        except RuntimeError:  # the loop is closed: nobody waits for this any more
            if asyncio.iscoroutine(value):
                value.close()

    def _start_task(
        self, loop: asyncio.AbstractEventLoop, prepared: Prepared, function: Callable[[], Awaitable[Any]]
    ) -> None:
        prepared.handle = loop.create_task(self._run_tool(prepared, function))

    async def _run_tool(self, prepared: Prepared, function: Callable[[], Awaitable[Any]]) -> None:
        try:
            value, error = await function(), None
        except BaseException as raised:
            value, error = None, raised
        self.arrived(prepared, value, error)

    def arrived(self, prepared: Prepared, value: Any, error: BaseException | None) -> None:
        if error is None and asyncio.iscoroutine(value):  # a plain function that returned a coroutine
            if self._running.get(prepared.call_id) is prepared:
                self._start_task(asyncio.get_running_loop(), prepared, lambda: value)
            else:
                value.close()
            return
        if self.finish(prepared, value, error) and self._waiter is not None:
            _wake(self._waiter)

    async def wait(self, timeout: float) -> Awaited:
        """Begin what has not begun; gives the answers that come within `timeout` seconds."""
        began = time.monotonic()
        end = began + timeout
        loop = asyncio.get_running_loop()
        for prepared in self._unstarted:
            if prepared.spec.is_async:
                self._start_task(loop, prepared, prepared.invoke)
            else:
                self._start_thread(loop, prepared)
        self._unstarted.clear()
        while not self._ready:
            left = self.patience(end - time.monotonic())
            if left > 0:
                waiter = self._waiter = loop.create_future()
                timer = loop.call_later(left, _wake, waiter)
                try:
                    await waiter
                finally:
                    timer.cancel()
                    self._waiter = None
            else:
                await asyncio.sleep(0)
            self.give_up_late()
            if not self._ready and time.monotonic() >= end:
                break
        return Awaited(time.monotonic() - began, self.take_ready())


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
