"""The blocking driver: performs a session's commands in the calling thread."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Generator
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
        self._futures: dict[int, Any] = {}

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
        kind = type(command)
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
        inbox = self._inbox

        def deliver(value: Any, error: BaseException | None) -> None:
            inbox.put((prepared, value, error))

        if prepared.spec.is_async:
            self._futures[prepared.call_id] = portal().submit(prepared.invoke, deliver)
        else:
            tool_threads().submit(prepared.invoke, deliver)

    def finish(self, prepared: Prepared, value: Any, error: BaseException | None) -> bool:
        self._futures.pop(prepared.call_id, None)
        if error is None and asyncio.iscoroutine(value):  # a plain function that returned a coroutine
            call_id = prepared.call_id
            self._futures[call_id] = portal().submit(lambda: value, lambda v, e: self._inbox.put((prepared, v, e)))
            return False
        return super().finish(prepared, value, error)

    def abandon_tool(self, call_id: int) -> None:
        future = self._futures.pop(call_id, None)
        if future is not None:
            future.cancel()
