"""Stretches of an asyncio session's run in the threads of its sync tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Any

from ..core.commands import Await, Awaited, Launch
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS
from .task_calls import TaskCalls
from .thread_trip import Following, ThreadTrip
from .threads import tool_threads

__all__ = ("Stretches",)


class Stretches(TaskCalls):
    """A sync call that is alone under way takes the run along into its thread (see `thread_trip`), until the event loop is needed."""

    keeps_to_loop = False
    """Whether all but the tools is to happen in the event loop's own thread."""

    def alone(self) -> Prepared | None:
        prepared = super().alone()
        return None if prepared is None or (self.keeps_to_loop and not prepared.spec.is_async) else prepared

    async def in_thread(self, steps: Generator[Any, Any, Any], prepared: Prepared, timeout: float) -> Following | None:
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
        made = trip.call(prepared.invoke, began + self.patience(timeout))
        if made is None:
            return None
        value, error, ours = made
        if not ours or asyncio.iscoroutine(value):
            self.arrived_elsewhere(trip.loop, prepared, value, error)
            return Await(timeout) if ours else None
        self.finish(prepared, value, error)
        return Awaited(time.monotonic() - began, self.take_ready())
