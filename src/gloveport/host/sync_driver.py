"""The blocking driver: performs a session's commands in the calling thread."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import time
from collections.abc import Callable, Generator
from typing import Any

from ..core.commands import Await, Awaited, Boot, Compile
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS, Driver
from .portal import portal
from .threads import tool_threads
from .trip import Trip

__all__ = ("SyncDriver",)


class SyncDriver(Driver):
    """Sync tools run in threads, async ones on the process's background event loop; the caller waits for whichever answers first.

    A sync call that is alone under way takes the run along into its thread (see `trip`).
    """

    _inbox: queue.SimpleQueue[tuple[Prepared, Any, BaseException | None] | None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inbox = queue.SimpleQueue()
        self._unstarted: list[Prepared] = []
        """Sync tools that were launched since the last wait."""

    def drive(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run a generator of the core to its end."""
        return self._go_on(steps, lambda: steps.send(None))

    def _go_on(self, steps: Generator[Any, Any, Any], proceed: Callable[[], Any], trip: Trip | None = None) -> Any:
        """From `proceed()`, which gives the first command, to the end of the run, or to where a trip is taken back."""
        try:
            command = proceed()
            while True:
                try:
                    if type(command) is Await and (alone := self._alone()) is not None:
                        if trip is None:
                            return self._travel(steps, alone, command.timeout)
                        result = self._call_here(trip, alone, command.timeout)
                        if trip.taken_back:
                            return None
                    else:
                        result = self._perform(command)
                    if trip is not None and trip.interruption is not None:
                        raise trip.interruption
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
            return self._await(command.timeout)
        if kind is Compile:
            return self.compiler.compile(command.source)
        if kind is Boot:
            self.release()
            self.link = self.engine.open()
            return None
        return self.perform_now(command)

    def _await(self, timeout: float) -> Awaited:
        for prepared in self._unstarted:
            inbox = self._inbox
            tool_threads().submit(prepared.invoke, lambda value, error, of=prepared: inbox.put((of, value, error)))
        self._unstarted.clear()
        began = time.monotonic()
        end = began + timeout
        while not self._ready:
            left = self.patience(end - time.monotonic())
            try:
                item = self._inbox.get(timeout=left) if left > 0 else self._inbox.get_nowait()
            except queue.Empty:
                self.give_up_late()
                if time.monotonic() >= end:
                    break
                continue
            if item is None:
                break
            self.finish(*item)
        self._take_arrived()
        return Awaited(time.monotonic() - began, self.take_ready())

    def _take_arrived(self) -> None:
        """Whatever else is there goes to the guest in the same step."""
        while not self._inbox.empty():
            item = self._inbox.get_nowait()
            if item is not None:
                self.finish(*item)

    # ── a run in the thread of its tool ──────────────────────────────────────────────────────────────────────────────

    def _alone(self) -> Prepared | None:
        """The call to wait for, if it is a sync one that has not begun, and the only one."""
        if len(self._running) == 1 and len(self._unstarted) == 1 and not self._ready:
            return self._unstarted.pop()
        return None

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
            if not trip.interrupt(interruption):
                self._inbox.put(None)
                if self.link is not None:
                    self.link.abort()
                return trip.outcome()
            return self._go_on(steps, lambda: steps.throw(interruption))
        self.give_up_late()
        return self._go_on(steps, lambda: steps.send(Awaited(time.monotonic() - began, self.take_ready())))

    def _first(self, steps: Generator[Any, Any, Any], trip: Trip, prepared: Prepared, timeout: float) -> Any:
        result = self._call_here(trip, prepared, timeout)
        if trip.taken_back:
            raise StopIteration
        return steps.send(result)

    def _call_here(self, trip: Trip, prepared: Prepared, timeout: float) -> Awaited | None:
        """Make the call in this thread. Nothing: the run was taken back meanwhile, or is to end."""
        began = time.monotonic()
        if not trip.depart(began + self.patience(timeout)):
            return None
        value, error = None, None
        try:
            value = contextvars.copy_context().run(prepared.invoke)
        except BaseException as raised:
            error = raised
        if not trip.arrive():
            self._inbox.put((prepared, value, error))
            return None
        self.finish(prepared, value, error)
        if not self._ready:  # it was an async tool in disguise
            return self._await(timeout)
        return Awaited(time.monotonic() - began, self.take_ready())

    # ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def cancel(self) -> None:
        super().cancel()
        self._unstarted.clear()

    def start_tool(self, prepared: Prepared) -> None:
        if prepared.spec.is_async:
            self._start_async(prepared, prepared.invoke)
        else:
            self._unstarted.append(prepared)

    def _start_async(self, prepared: Prepared, function: Callable[[], Any]) -> None:
        inbox = self._inbox
        prepared.handle = portal().submit(function, lambda value, error: inbox.put((prepared, value, error)))

    def finish(self, prepared: Prepared, value: Any, error: BaseException | None) -> bool:
        if error is None and asyncio.iscoroutine(value):  # a plain function that returned a coroutine
            if self._running.get(prepared.call_id) is prepared:
                self._start_async(prepared, lambda: value)
            else:
                value.close()
            return False
        return super().finish(prepared, value, error)
