"""A run that has moved into the task of its tool: what `trip` is for threads.

A task per call, and waking the run's own task with each result, are two turns of the event loop and half of what a call costs.
So the first async call that is alone takes the whole run with it: that task awaits the tool, goes on with the session, and awaits
the next tool. The caller waits for the outcome, or takes the run back when a tool is late or the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from .trip import LONGEST

__all__ = ("TaskTrip", "in_own_context")


class TaskTrip:
    """Who has the run: the task that makes its calls, or the caller."""

    task: asyncio.Task[None]

    def __init__(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._loop = loop
        self._news: asyncio.Future[None] = loop.create_future()
        self._calling = True
        self._due = due
        self._until = 0.0
        """Until when the caller sleeps at present."""
        self._turn = loop.time()
        """When other tasks had their turn."""
        self.taken_back = False
        """The caller has the run again; the task has a tool, nothing more."""
        self.interruption: BaseException | None = None
        """What the caller was interrupted with while the guest was at work: the task throws it into the run."""
        self._over = False
        self._value: Any = None
        self._error: BaseException | None = None

    # ── in the tool's task ───────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, body: Coroutine[Any, Any, Any]) -> None:
        """The run, to its end or to where it is taken back."""
        task = asyncio.current_task()
        assert task is not None
        self.task = task  # an eager task runs before whoever makes it has it
        try:
            self._value = await body
        except BaseException as error:
            self._error = error
        self._over = not self.taken_back
        self._tell()

    def depart(self, patience: float) -> float:
        """A call begins: its time. The caller may take the run back after `patience` seconds."""
        now = self._loop.time()
        self._calling, self._due = True, now + patience
        if self._due < self._until:  # a timer of the guest is due before a call was late so far
            self._tell()
        return now

    def arrive(self) -> bool:
        """The call ended. False: the caller has taken the run back."""
        self._calling, self._due = False, math.inf
        return not self.taken_back

    def cancelled(self) -> bool:
        """Whether someone asked the task to end."""
        return self.task.cancelling() > 0

    async def breathe(self, seconds: float) -> None:
        """Let the event loop turn if it has not for so long."""
        if self._loop.time() - self._turn > seconds:
            await asyncio.sleep(0)
            self._turn = self._loop.time()

    # ── in the caller's task ─────────────────────────────────────────────────────────────────────────────────────────

    async def wait(self) -> bool:
        """Until the run is over (true), or the run was taken back because a call is late (false)."""
        while not self._over:
            self._until = min(self._due, self._loop.time() + LONGEST)
            timer = self._loop.call_at(self._until, self._tell)
            try:
                await self._news
            finally:
                timer.cancel()  # due after minutes: a run that is over must not be kept until then
            self._news = self._loop.create_future()
            if self._calling and self._due <= self._loop.time():
                self.taken_back = True
                return False
        return True

    def interrupt(self, error: BaseException) -> bool:
        """Take the run back, or (false) have the task end it with `error`."""
        self.taken_back = self._calling
        if not self._calling and not self._over:
            self.interruption = error
            self.task.cancel()
        return self._calling

    async def outcome(self) -> Any:
        """What came of the run; waits for that however often it is cancelled."""
        while not self._over:
            try:
                await asyncio.wait([self.task])
            except asyncio.CancelledError:  # one is being reported already
                continue
        if self._error is not None:
            raise self._error
        return self._value

    def _tell(self) -> None:
        if not self._news.done():
            self._news.set_result(None)


class in_own_context:
    """Await `function()` in a copy of the current context, in the current task: a tool's variables are its own."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], Awaitable[Any]]) -> None:
        self._function = function

    def __await__(self) -> Generator[Any, Any, Any]:
        run = contextvars.copy_context().run
        awaitable = run(self._function)
        coroutine = awaitable if asyncio.iscoroutine(awaitable) else _wrapped(awaitable)
        step: Callable[..., Any] = coroutine.send
        sent: Any = None
        while True:
            try:
                waited = run(step, sent)
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield waited
                step = coroutine.send
            except BaseException as error:
                step, sent = coroutine.throw, error


async def _wrapped(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
