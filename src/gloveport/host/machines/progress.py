"""What takes long says what it does: `say`, to whoever asked for it by `reporting`."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Generator
from typing import Final

__all__ = ("OnProgress", "reporting", "say")

OnProgress = Callable[[str], object]
"""Is called with a few words, such as `unpacking 12 of 146`."""
_listener: Final[contextvars.ContextVar[OnProgress | None]] = contextvars.ContextVar("gloveport_progress", default=None)


@contextlib.contextmanager
def reporting(listener: OnProgress | None) -> Generator[None]:
    """What is said within goes to this listener; with `None`, to the one there is."""
    if listener is None:
        yield
        return
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def say(text: str) -> None:
    """Tell it, if anybody listens."""
    listener = _listener.get()
    if listener is not None:
        listener(text)
