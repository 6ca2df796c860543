"""A stretch of an asyncio session's run in the thread of its sync tool: what `trip` is for blocking sessions.

To hand each call of a sync tool to a thread and its result back to the event loop are two wake-ups, and more than the call itself
(measured 100 of 195 µs). So the first such call that is alone takes the run with it: the thread makes the call, goes on with the
guest, and makes the next one where it is. Whatever else the run needs is for the event loop: it gets the run back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from .trip import Hold

__all__ = ("Following", "ThreadTrip")

Following = Callable[[], Any]
"""Gives the next command of the run, for the event loop, or raises what the run ended with (`StopIteration`: its outcome)."""


class ThreadTrip(Hold):
    """A caller that waits on its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self._news: asyncio.Future[None] = loop.create_future()
        self.over = False
        """Whether the thread has given the run back."""
        self.following: Following | None = None
        """With what the event loop goes on; nothing after an interruption."""

    # ── in the tool's thread ─────────────────────────────────────────────────────────────────────────────────────────

    def end(self, following: Following | None, error: BaseException | None) -> None:
        """The thread has done what it can."""
        if not self.taken_back:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
                self.loop.call_soon_threadsafe(self._end, following, error)

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._tell)

    # ── on the caller's event loop ───────────────────────────────────────────────────────────────────────────────────

    async def wait(self) -> bool:
        """Until the thread gives the run back (true), or the run was taken back because a call is late (false)."""
        while not self.over:
            timer = self.loop.call_later(self.patience(), self._tell)
            try:
                await self._news
            finally:
                timer.cancel()  # due after minutes: a run that is over must not be kept until then
                self._news = self.loop.create_future()
            if not self.over and self.late():
                return False
        return True

    async def given_back(self) -> None:
        """Until the thread gives the run back, however often this task is cancelled."""
        while not self.over:
            try:
                await self._news
            except asyncio.CancelledError:  # one is being reported already
                self._news = self.loop.create_future()

    def _end(self, following: Following | None, error: BaseException | None) -> None:
        self.over, self.following = True, following
        if error is not None:
            self.following = lambda: _raise(error)
        self._tell()

    def _tell(self) -> None:
        if not self._news.done():
            self._news.set_result(None)


def _raise(error: BaseException) -> Any:
    raise error
