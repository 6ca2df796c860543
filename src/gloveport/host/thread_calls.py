"""The calls of a blocking session: started in threads, waited for in one inbox."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable
from typing import Any

from ..core.commands import Awaited
from ..tools.bridge import Prepared
from .driver import Driver
from .portal import portal
from .threads import tool_threads

__all__ = ("ThreadCalls",)


class ThreadCalls(Driver):
    """Sync tools run in threads, async ones on the process's background event loop; whichever answers first is taken first."""

    inbox: queue.SimpleQueue[tuple[Prepared, Any, BaseException | None] | None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.inbox = queue.SimpleQueue()
        """What came of calls. `None` ends a wait early."""

    def start_tool(self, prepared: Prepared) -> None:
        if prepared.spec.is_async:
            self._start_async(prepared, prepared.invoke)
        else:
            self._unstarted.append(prepared)

    def _start_async(self, prepared: Prepared, function: Callable[[], Any]) -> None:
        inbox = self.inbox
        prepared.handle = portal().submit(function, lambda value, error: inbox.put((prepared, value, error)))

    def finish(self, prepared: Prepared, value: Any, error: BaseException | None) -> bool:
        if error is None and asyncio.iscoroutine(value):  # a plain function that returned a coroutine
            if self._running.get(prepared.call_id) is prepared:
                self._start_async(prepared, lambda: value)
            else:
                value.close()
            return False
        return super().finish(prepared, value, error)

    def wait(self, timeout: float) -> Awaited:
        """Begin what has not begun; gives the answers that come within `timeout` seconds."""
        for prepared in self._unstarted:
            self._start_thread(prepared)
        self._unstarted.clear()
        began = time.monotonic()
        end = began + timeout
        while not self._ready:
            left = self.patience(end - time.monotonic())
            try:
                item = self.inbox.get(timeout=left) if left > 0 else self.inbox.get_nowait()
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
        while not self.inbox.empty():
            item = self.inbox.get_nowait()
            if item is not None:
                self.finish(*item)

    def _start_thread(self, prepared: Prepared) -> None:
        inbox = self.inbox
        tool_threads().submit(prepared.invoke, lambda value, error: inbox.put((prepared, value, error)))
