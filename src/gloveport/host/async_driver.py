"""The awaiting driver: performs a session's commands on the running event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator
from typing import Any

from ..core.commands import Await, Awaited, Boot, Compile
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS, Driver
from .threads import tool_threads

__all__ = ("AsyncDriver",)


class AsyncDriver(Driver):
    """Async tools are tasks of the running loop, sync ones run in threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiter: asyncio.Future[None] | None = None

    async def drive(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run a generator of the core to its end."""
        try:
            command = next(steps)
            while True:
                try:
                    result = await self._perform(command)
                except BaseException as error:
                    command = steps.throw(error)
                else:
                    command = steps.send(result)
        except StopIteration as stop:
            return stop.value

    async def _perform(self, command: Any) -> Any:
        kind = type(command)  # pyright: ignore[reportUnknownVariableType]
        if kind in GUEST_COMMANDS:
            return await self.need_link().perform_async(command)
        if kind is Await:
            return await self._await(command.timeout)
        if kind is Compile:
            return await self.compiler.compile_async(command.source)
        if kind is Boot:
            self.release()
            self.link = await self.engine.open_async()
            return None
        return self.perform_now(command)

    async def _await(self, timeout: float) -> Awaited:
        began = time.monotonic()
        end = began + timeout
        loop = asyncio.get_running_loop()
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

    def start_tool(self, prepared: Prepared) -> None:
        loop = asyncio.get_running_loop()
        if prepared.spec.is_async:
            self._start_task(loop, prepared, prepared.invoke())
            return

        def deliver(value: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(self._arrived, prepared, value, error)
            except RuntimeError:  # the loop is closed: nobody waits for this any more
                if asyncio.iscoroutine(value):
                    value.close()

        tool_threads().submit(prepared.invoke, deliver)

    def _start_task(
        self, loop: asyncio.AbstractEventLoop, prepared: Prepared, coroutine: Coroutine[Any, Any, Any]
    ) -> None:
        prepared.handle = loop.create_task(self._run_tool(prepared, coroutine))

    async def _run_tool(self, prepared: Prepared, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            value, error = await coroutine, None
        except BaseException as raised:
            value, error = None, raised
        self._arrived(prepared, value, error)

    def _arrived(self, prepared: Prepared, value: Any, error: BaseException | None) -> None:
        if error is None and asyncio.iscoroutine(value):  # a plain function that returned a coroutine
            if self._running.get(prepared.call_id) is prepared:
                self._start_task(asyncio.get_running_loop(), prepared, value)
            else:
                value.close()
            return
        if self.finish(prepared, value, error) and self._waiter is not None:
            _wake(self._waiter)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
