"""The blocking driver: performs a session's commands in the calling thread."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Generator
from typing import Any

from ..core.commands import Await, Awaited, Boot, Compile
from ..tools.bridge import Prepared
from .driver import GUEST_COMMANDS, Driver
from .portal import portal
from .threads import tool_threads

__all__ = ("SyncDriver",)


class SyncDriver(Driver):
    """Tools run in threads, async ones on the process's background event loop; this thread waits for whichever answers first."""

    _inbox: queue.SimpleQueue[tuple[Prepared, Any, BaseException | None]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._inbox = queue.SimpleQueue()

    def drive(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run a generator of the core to its end."""
        try:
            command = next(steps)
            while True:
                try:
                    result = self._perform(command)
                except BaseException as error:
                    command = steps.throw(error)
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
            self.finish(*item)
        while True:  # whatever else is there goes to the guest in the same step
            try:
                self.finish(*self._inbox.get_nowait())
            except queue.Empty:
                break
        return Awaited(time.monotonic() - began, self.take_ready())

    def start_tool(self, prepared: Prepared) -> None:
        if prepared.spec.is_async:
            self._start_async(prepared, prepared.invoke)
        else:
            inbox = self._inbox
            tool_threads().submit(prepared.invoke, lambda value, error: inbox.put((prepared, value, error)))

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
