"""Threads for sync tools: reused, made on demand, gone after a while. One thread per call in flight, so that calls overlap.

A `ThreadPoolExecutor` costs twice as much per call here (measured 60 against 25 µs), because of its futures and its shared
queue; and it joins its threads at exit, so one tool that hangs would keep the interpreter alive.
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

__all__ = ("ToolThreads", "tool_threads")

_IDLE_SECONDS: Final = 10.0

Job = tuple[Callable[[], Any], contextvars.Context, Callable[[Any, BaseException | None], None]]


class _Thread(threading.Thread):
    def __init__(self, idle: deque[_Thread]) -> None:
        super().__init__(name="gloveport-tool", daemon=True)
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._idle = idle

    def run(self) -> None:
        while True:
            try:
                function, context, deliver = self.jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                try:
                    self._idle.remove(self)
                except ValueError:  # just taken by `submit`: its job is coming
                    continue
                return
            try:
                value = context.run(function)
            except BaseException as error:
                self._idle.append(self)
                deliver(None, error)
                del error
            else:
                self._idle.append(self)
                deliver(value, None)
                del value
            del function, context, deliver


class ToolThreads:
    """Runs functions in threads. `deliver(value, error)` is called in that thread."""

    def __init__(self) -> None:
        self._idle: deque[_Thread] = deque()

    def submit(self, function: Callable[[], Any], deliver: Callable[[Any, BaseException | None], None]) -> None:
        """Run `function` in a copy of the caller's context."""
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _Thread(self._idle)
            thread.start()
        thread.jobs.put((function, contextvars.copy_context(), deliver))


_current = ToolThreads()


def tool_threads() -> ToolThreads:
    """This process's threads for tools."""
    return _current


def _renew() -> None:
    global _current
    _current = ToolThreads()


os.register_at_fork(after_in_child=_renew)
