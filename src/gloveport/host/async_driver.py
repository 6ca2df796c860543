"""The awaiting driver: performs a session's commands in the calling task, or where a tool is that is alone: in its task or thread."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Generator
from typing import Any, Final

from ..core.commands import Await, Awaited, Boot, Compile, Judge, Launch, Note, Persist
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS
from .log import note_to
from .task_calls import TaskCalls
from .task_trip import TaskTrip, in_own_context
from .thread_trip import Following, ThreadTrip
from .threads import tool_threads

__all__ = ("AsyncDriver",)

_HOLD_UP: Final = 0.001
"""Seconds for which a run whose tools never wait may keep the event loop from others."""


class AsyncDriver(TaskCalls):
    """A call that is alone under way takes the run along: an async one into its task (see `task_trip`), a sync one into its thread
    (see `thread_trip`)."""

    keeps_to_loop = False
    """Whether all but the tools is to happen in the event loop's own thread."""

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
                            following = await self._in_thread(steps, alone, command.timeout)
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

    # ── a stretch of a run in the thread of its tool ─────────────────────────────────────────────────────────────────

    def alone(self) -> Prepared | None:
        prepared = super().alone()
        return None if prepared is None or (self.keeps_to_loop and not prepared.spec.is_async) else prepared

    async def _in_thread(self, steps: Generator[Any, Any, Any], prepared: Prepared, timeout: float) -> Following | None:
        """Have a thread make the call and go on from there for as long as it can."""
        trip, began = ThreadTrip(asyncio.get_running_loop()), time.monotonic()
        trip.depart(began + self.patience(timeout))
        self.begin()
        tool_threads().submit(lambda: self._stretch(steps, trip, prepared, timeout), trip.end)
        try:
            given_back = await trip.wait()
        except BaseException as error:
            if not trip.interrupt(error, self.abort):
                await trip.given_back()
            raise
        if given_back:
            return trip.following
        self.give_up_late()
        return lambda: steps.send(Awaited(time.monotonic() - began, self.take_ready()))

    def _stretch(
        self, steps: Generator[Any, Any, Any], trip: ThreadTrip, first: Prepared, timeout: float
    ) -> Following | None:
        """In the tool's thread: the call, and what follows that needs no event loop. Raises what the run ends with. Nothing: the
        caller has the run already."""
        prepared: Prepared | None = first
        command: Any = None
        while True:
            try:
                if prepared is not None:
                    result = self._call_there(trip, prepared, timeout)
                    if result is None:
                        return None
                    if type(result) is Await:
                        command = result
                        break
                elif type(command) is Launch:
                    result = self.launch(command)
                else:
                    result = trip.ask(self.need_link().perform, command)
            except BaseException as error:
                if trip.interruption is not None:
                    return None
                command = steps.throw(error)
            else:
                command = steps.send(result)
            prepared = None
            kind = type(command)  # pyright: ignore[reportUnknownVariableType]
            if kind is Await and (alone := self.alone()) is not None and not alone.spec.is_async:
                prepared, timeout = alone, command.timeout
                self.begin()
            elif kind is not Launch and kind not in GUEST_COMMANDS:
                break
        return lambda: command

    def _call_there(self, trip: ThreadTrip, prepared: Prepared, timeout: float) -> Awaited | Await | None:
        """Make the call in this thread. Nothing: the run was taken back meanwhile, or is to end. `Await`: what was called has to be
        awaited."""
        began = time.monotonic()
        if not trip.depart(began + self.patience(timeout)):
            return None
        value, error = None, None
        try:
            value = contextvars.copy_context().run(prepared.invoke)
        except BaseException as raised:
            error = raised
        ours = trip.arrive()
        if not ours or asyncio.iscoroutine(value):
            self.arrived_elsewhere(trip.loop, prepared, value, error)
            return Await(timeout) if ours else None
        self.finish(prepared, value, error)
        return Awaited(time.monotonic() - began, self.take_ready())
