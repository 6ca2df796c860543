"""The awaiting driver: performs a session's commands on the running event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from ..core.commands import Await, Awaited, Boot, Compile
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS, Driver
from .task_trip import TaskTrip, in_own_context
from .threads import tool_threads

__all__ = ("AsyncDriver",)

_HOLD_UP: Final = 0.001
"""Seconds for which a run whose tools never wait may keep the event loop from others."""


class AsyncDriver(Driver):
    """Async tools are tasks of the running loop, sync ones run in threads.

    An async call that is alone under way takes the run along into its task (see `task_trip`).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiter: asyncio.Future[None] | None = None
        self._unstarted: list[Prepared] = []
        """Async tools that were launched since the last wait."""

    async def drive(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run a generator of the core to its end."""
        return await self._go_on(steps, lambda: steps.send(None))

    async def _go_on(
        self, steps: Generator[Any, Any, Any], proceed: Callable[[], Any], trip: TaskTrip | None = None
    ) -> Any:
        """From `proceed()`, which gives the first command, to the end of the run, or to where a trip is taken back."""
        try:
            command = proceed()
            while True:
                try:
                    if type(command) is Await and (alone := self._alone()) is not None:
                        if trip is None:
                            return await self._travel(steps, alone, command.timeout)
                        result = await self._call_here(trip, alone, command.timeout)
                        if trip.taken_back:
                            return None
                    else:
                        result = await self._perform(command)
                except BaseException as error:
                    command = steps.throw(error if trip is None else trip.interruption or error)
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

    # ── a run in the task of its tool ────────────────────────────────────────────────────────────────────────────────

    def _alone(self) -> Prepared | None:
        """The call to wait for, if it is an async one that has not begun, and the only one."""
        if len(self._running) == 1 and len(self._unstarted) == 1 and not self._ready:
            return self._unstarted.pop()
        return None

    async def _travel(self, steps: Generator[Any, Any, Any], prepared: Prepared, timeout: float) -> Any:
        """Have another task make the call and go on from there; wait for the outcome."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        trip = TaskTrip(loop, began + self.patience(timeout))

        async def body() -> None:
            await trip.run(self._go_on(steps, lambda: Await(timeout), trip))

        self._unstarted.append(prepared)
        trip.task = loop.create_task(body())
        try:
            over = await trip.wait()
        except BaseException as error:
            interruption = error
            if not trip.interrupt(interruption):
                return await trip.outcome()
            return await self._go_on(steps, lambda: steps.throw(interruption))
        if over:
            return await trip.outcome()
        self.give_up_late()
        return await self._go_on(steps, lambda: steps.send(Awaited(loop.time() - began, self.take_ready())))

    async def _call_here(self, trip: TaskTrip, prepared: Prepared, timeout: float) -> Awaited | None:
        """Make the call in this task. Nothing: the run was taken back meanwhile."""
        began = trip.depart(self.patience(timeout))
        prepared.handle = trip.task
        value, error = None, None
        try:
            value = await in_own_context(prepared.invoke)
            if trip.cancelled():  # by the tool itself, which then went on to its end
                await asyncio.sleep(0)
        except BaseException as raised:
            error = raised
        if not trip.arrive():
            self._arrived(prepared, value, error)
            return None
        self.finish(prepared, value, error)
        await trip.breathe(_HOLD_UP)
        return Awaited(time.monotonic() - began, self.take_ready())

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _await(self, timeout: float) -> Awaited:
        began = time.monotonic()
        end = began + timeout
        loop = asyncio.get_running_loop()
        for prepared in self._unstarted:
            self._start_task(loop, prepared, prepared.invoke())
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

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def cancel(self) -> None:
        super().cancel()
        self._unstarted.clear()

    def start_tool(self, prepared: Prepared) -> None:
        if prepared.spec.is_async:
            self._unstarted.append(prepared)
            return
        loop = asyncio.get_running_loop()

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
