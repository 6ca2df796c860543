"""What a conversation with a machine asks of whoever drives it. Conversations are generators without I/O, driven by blocking code
or by an event loop (`gloveport.machines.channel`): they yield bytes to send, or one of these, and return their result."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar

from ..errors import (
    CommandNotFoundError,
    ProtocolViolation,
    SandboxError,
    SandboxPausedError,
    ValidationError,
    file_error,
)
from .wire import Fields, FrameReader, Tag, Tell

__all__ = (
    "RECEIVE",
    "Call",
    "Disconnected",
    "Frames",
    "Give",
    "Next",
    "Owed",
    "Patience",
    "Receive",
    "Reconnect",
    "Steps",
    "failure",
    "simple",
)

T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""A conversation that gives a `T`."""


class Receive:
    """Give the bytes that came; `b""` when the other side has closed."""


RECEIVE: Final = Receive()


@dataclasses.dataclass(frozen=True)
class Reconnect:
    """Go on over a new connection."""


@dataclasses.dataclass(frozen=True)
class Patience:
    """Seconds of the machine's active time after which it counts as unreachable; `None` as long as it lives."""

    seconds: float | None


@dataclasses.dataclass(frozen=True)
class Owed:
    """What was asked for has an effect that the answer names: whoever is cut off from now on hears it first (`on=False`: it was heard)."""

    on: bool


@dataclasses.dataclass(frozen=True)
class Call:
    """Call this, and wait for what it gives if that can be waited for."""

    function: Callable[[Any], Any]
    argument: Any


@dataclasses.dataclass(frozen=True)
class Next:
    """Give the next item, or `None` after the last one."""

    source: Iterator[bytes] | AsyncIterator[bytes]


@dataclasses.dataclass(frozen=True)
class Give:
    """Hand this to whoever reads the stream."""

    item: Any


class Disconnected(Exception):
    """The other side has closed the connection. `began` says whether it had answered anything on it."""

    def __init__(self, *, began: bool) -> None:
        super().__init__("the connection to the machine ended")
        self.began = began


class Frames:
    """The frames of one conversation."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self.began = False

    def next(self) -> Steps[tuple[Tell, bytes]]:
        """The next frame that is no error. Raises the error that the machine tells of."""
        frame = self._reader.next()
        while frame is None:
            data = yield RECEIVE
            if not data:
                raise Disconnected(began=self.began)
            self.began = True
            self._reader.feed(data)
            frame = self._reader.next()
        return frame

    def expect(self, kind: Tell, path: str = "") -> Steps[bytes]:
        """The body of the next frame, which has to be of this kind."""
        got, body = yield from self.next()
        if got is Tell.ERROR:
            raise failure(body, path)
        if got is not kind:
            raise ProtocolViolation(f"a machine sent {got.name} where {kind.name} was due")
        return body

    def clear(self) -> bool:
        """Whether nothing is left over, so that the connection can be used again."""
        return not self._reader.pending

    def restart(self) -> None:
        """Forget half a frame of a connection that ended."""
        self._reader = FrameReader()
        self.began = False


def failure(body: bytes, path: str = "") -> Exception:
    """The error that an `ERROR` frame means. The class depends on numbers and codes only, never on a text."""
    told = Fields(body)
    number, code = told.integer(Tag.ERRNO, 0), told.text(Tag.CODE, "")
    message = _printable(told.text(Tag.MESSAGE, ""))
    if code == "paused":
        return SandboxPausedError("the machine is paused")
    if code in ("no_process", "no_command"):
        return CommandNotFoundError("the machine has no such command")
    if code == "protocol":
        return ProtocolViolation(f"the machine did not understand: {message}")
    if code == "user":
        return ValidationError("the machine has no such user", hint="leave `user` out, or make that user first")
    if code in ("argv", "env", "rlimit"):
        return ValidationError(f"the machine cannot start this command: {code}")
    if path or number:
        return file_error(number, message or f"error {number}", path)
    return (
        ValidationError(f"the machine refused: {message}")
        if code == "invalid"
        else SandboxError(f"the machine refused: {message}")
    )


def _printable(text: str, most: int = 500) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:most])


def simple(request: bytes, path: str = "") -> Steps[Fields]:
    """One request that is answered by one `OK`."""
    yield request
    body = yield from Frames().expect(Tell.OK, path)
    return Fields(body)
