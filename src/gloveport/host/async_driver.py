"""The awaiting driver: performs a session's commands in the calling task, or where a tool is that is alone: in its task or thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Any, Final

from ..core.commands import Await, Awaited, Boot, Compile, Judge, Note, Persist
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS
from .log import note_to
from .stretches import Stretches
from .task_trip import TaskTrip, in_own_context

__all__ = ("AsyncDriver",)

_HOLD_UP: Final = 0.001
"""Seconds for which a run whose tools never wait may keep the event loop from others."""


class AsyncDriver(Stretches):
    """A call that is alone under way takes the run along: an async one into its task (see `task_trip`), a sync one into its thread
    (see `stretches`)."""

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
                following = result = None
                try:
                    if type(command) is Await and (alone := self.alone()) is not None:
                        if not alone.spec.is_async:
                            following = await self.in_thread(steps, alone, command.timeout)
                        elif trip is None:
                            return await self._travel(steps, command.timeout)
                        else:
                            result = await self._call_here(trip, alone, command.timeout)
                            if trip.taken_back:
                                return None
                    else:
                        result = await self._perform(command)
                except BaseException as error:
                    command = steps.throw(error if trip is None else trip.interruption or error)
                else:
                    command = steps.send(result) if following is None else following()
        except StopIteration as stop:
            return stop.value

    async def _perform(self, command: Any) -> Any:
        kind = type(command)  # pyright: ignore[reportUnknownVariableType]
        if kind in GUEST_COMMANDS:
            return await self.need_link().perform_async(command)
        if kind is Await:
            return await self.wait(command.timeout)
        if kind is Persist and self.persist is not None:
            return await self.persist(command)
        if kind is Judge:
            return self.judge(command)
        if kind is Note:
            return None if self.call_log is None else await note_to(self.call_log, command)
        if kind is Compile:
            return await self.compiler.compile_async(command.source, script=command.script)
        if kind is Boot:
            self.release()
            self.link = await self.engine.open_async()
            return None
        return self.perform_now(command)

    # ── a run in the task of its tool ────────────────────────────────────────────────────────────────────────────────

    async def _travel(self, steps: Generator[Any, Any, Any], timeout: float) -> Any:
        """Have another task make the call and go on from there; wait for the outcome."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        trip = TaskTrip(loop, began + self.patience(timeout))

        async def body() -> None:
            await trip.run(self._go_on(steps, lambda: Await(timeout), trip))

        trip.task = loop.create_task(body())
        try:
            over = await trip.wait()
        except BaseException as error:
            interruption = error
            if not trip.interrupt(interruption):
                await trip.outcome()
                raise
            return await self._go_on(steps, lambda: steps.throw(interruption))
        if over:
            return await trip.outcome()
        self.give_up_late()
        return await self._go_on(steps, lambda: steps.send(Awaited(loop.time() - began, self.take_ready())))

    async def _call_here(self, trip: TaskTrip, prepared: Prepared, timeout: float) -> Awaited | None:
        """Make the call in this task. Nothing: the run was taken back meanwhile."""
        self.begin()
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
            self.arrived(prepared, value, error)
            return None
        self.finish(prepared, value, error)
        await trip.breathe(_HOLD_UP)
        return Awaited(time.monotonic() - began, self.take_ready())
