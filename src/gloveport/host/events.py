"""From a session at work to whoever listens: any number of listeners, in threads or on event loops."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from ..events import Event, EventsMissed

__all__ = ("EventHub", "EventStream")

MAX_WAITING: Final = 10_000
"""Events that wait for one listener. The oldest are dropped then: a session never waits for a listener."""


class EventStream(Iterator[Event], AsyncIterator[Event]):
    """Events from now on: `for event in stream` blocks, `async for event in stream` awaits. It ends when the session is closed.

    One listener per stream. Leaving a `with` block, `close()`, or dropping the stream ends it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._last_missed: Event | None = None
        self._over = False
        self._wake: Callable[[], None] | None = None

    def put(self, event: Event) -> None:
        """Called by the session, in any thread."""
        with self._lock:
            if self._over:
                return
            if len(self._waiting) >= MAX_WAITING:
                self._last_missed = self._waiting.popleft()
                self._missed += 1
            self._waiting.append(event)
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def close(self) -> None:
        """End the stream; what waits is still given. Idempotent."""
        with self._lock:
            self._over = True
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def _take(self, wake: Callable[[], None]) -> Event | None:
        """The next event; nothing when none waits: then `wake` is called when there is news. Raises `EOFError` at the end."""
        with self._lock:
            if self._missed and self._last_missed is not None:
                event = EventsMissed(self._last_missed.run, self._last_missed.sequence, self._missed)
                self._missed = 0
                return event
            if self._waiting:
                return self._waiting.popleft()
            if self._over:
                raise EOFError
            self._wake = wake
            return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        news = threading.Event()
        try:
            while (event := self._take(news.set)) is None:
                news.wait()
                news.clear()
        except EOFError:
            raise StopIteration from None
        return event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        loop = asyncio.get_running_loop()
        while True:
            news: asyncio.Future[None] = loop.create_future()
            try:
                event = self._take(lambda news=news: _wake_soon(loop, news))
            except EOFError:
                raise StopAsyncIteration from None
            if event is not None:
                return event
            await news

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _wake_soon(loop: asyncio.AbstractEventLoop, news: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_wake, news)
    except RuntimeError:  # that loop is closed: nobody listens there any more
        pass


def _wake(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


class EventHub:
    """The listeners of one session."""

    def __init__(self) -> None:
        self._sequence = 0
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._over = False

    def open(self) -> EventStream:
        """A new listener."""
        stream = EventStream()
        with self._lock:
            if self._over:
                stream.close()
            self._streams.add(stream)
        return stream

    def tell(self, kind: Callable[..., Event], run: int, *more: Any) -> None:
        """An event for everyone."""
        with self._lock:
            self._sequence += 1
            event = kind(run, self._sequence, *more)
            streams = list(self._streams)
        for stream in streams:
            stream.put(event)

    def close(self) -> None:
        """The session is closed."""
        with self._lock:
            self._over = True
            streams = list(self._streams)
        for stream in streams:
            stream.close()
