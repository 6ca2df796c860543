"""The blocking driver: performs a session's commands in the calling thread, or in that of a tool that is alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from ..core.commands import Await, Awaited, Boot, Compile, Judge, Note
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS
from .log import note_at_once
from .portal import await_on_portal
from .thread_calls import ThreadCalls
from .threads import tool_threads
from .trip import Trip

__all__ = ("SyncDriver",)


class SyncDriver(ThreadCalls):
    """A sync call that is alone under way takes the run along into its thread (see `trip`)."""

    def drive(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run a generator of the core to its end."""
        return self._go_on(steps, lambda: steps.send(None))

    def _go_on(self, steps: Generator[Any, Any, Any], proceed: Callable[[], Any], trip: Trip | None = None) -> Any:
        """From `proceed()`, which gives the first command, to the end of the run, or to where a trip is taken back."""
        try:
            command = proceed()
            while True:
                try:
                    if type(command) is Await and (alone := self.alone()) is not None:
                        self.begin()
                        if trip is None:
                            return self._travel(steps, alone, command.timeout)
                        result = self._call_here(trip, alone, command.timeout)
                        if trip.taken_back:
                            return None
                    elif trip is not None:
                        result = self._perform_there(trip, command)
                    else:
                        result = self._perform(command)
                except BaseException as error:
                    command = steps.throw(error if trip is None else trip.interruption or error)
                else:
                    command = steps.send(result)
        except StopIteration as stop:
            return stop.value

    def _perform(self, command: Any) -> Any:
        kind = type(command)  # pyright: ignore[reportUnknownVariableType]
        if kind in GUEST_COMMANDS:
            return self.need_link().perform(command)
        if kind is Await:
            return self.wait(command.timeout)
        if kind is Judge:
            return self.judge(command)
        if kind is Note:
            return None if self.call_log is None else note_at_once(self.call_log, command, await_on_portal)
        if kind is Compile:
            return self.compiler.compile(command.source, script=command.script)
        if kind is Boot:
            self.release()
            self.link = self.engine.open()
            return None
        return self.perform_now(command)

    # ── a run in the thread of its tool ──────────────────────────────────────────────────────────────────────────────

    def _travel(self, steps: Generator[Any, Any, Any], prepared: Prepared, timeout: float) -> Any:
        """Have another thread make the call and go on from there; wait for the outcome."""
        trip, began = Trip(), time.monotonic()
        trip.depart(began + self.patience(timeout))
        tool_threads().submit(
            lambda: self._go_on(steps, lambda: self._first(steps, trip, prepared, timeout), trip), trip.end
        )
        try:
            if trip.wait():
                return trip.outcome()
        except BaseException as error:
            interruption = error
            if not trip.interrupt(interruption, self.abort):
                self.inbox.put(None)
                trip.outcome()
                raise
            return self._go_on(steps, lambda: steps.throw(interruption))
        self.give_up_late()
        return self._go_on(steps, lambda: steps.send(Awaited(time.monotonic() - began, self.take_ready())))

    def _first(self, steps: Generator[Any, Any, Any], trip: Trip, prepared: Prepared, timeout: float) -> Any:
        result = self._call_here(trip, prepared, timeout)
        if trip.taken_back:
            raise StopIteration
        return steps.send(result)

    def _perform_there(self, trip: Trip, command: Any) -> Any:
        if type(command) in GUEST_COMMANDS:
            return trip.ask(self.need_link().perform, command)
        result = self._perform(command)
        if trip.interruption is not None:
            raise trip.interruption
        return result

    def _call_here(self, trip: Trip, prepared: Prepared, timeout: float) -> Awaited | None:
        """Make the call in this thread. Nothing: the run was taken back meanwhile, or is to end."""
        began = time.monotonic()
        made = trip.call(prepared.invoke, began + self.patience(timeout))
        if made is None:
            return None
        value, error, ours = made
        if not ours:
            self.inbox.put((prepared, value, error))
            return None
        self.finish(prepared, value, error)
        if not self._ready:  # it was an async tool in disguise
            return self.wait(timeout)
        return Awaited(time.monotonic() - began, self.take_ready())
