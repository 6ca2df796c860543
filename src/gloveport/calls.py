"""Which call a tool is being run for, and a log of calls that outlives the process.

A tool that must not happen twice can ask for the call's *idempotency key*: a Python function by a parameter annotated
`IdempotencyKey`, any tool by `current_call()`. The key is made of the session's id, the call's number and what is called with which
arguments. Numbers are not used again, not even after a rollback; so two calls of a session never have the same key, while the same call
that is made once more, after an older dump was loaded, has the same one. A fork has an id and therefore keys of its own.

A `CallLog` is told of every call before its tool runs and when it has answered. It makes sure that a session which is loaded after its
process died neither repeats a call unnoticed nor gets the budget back.
"""

from __future__ import annotations

import contextvars
import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any, Final, NewType, Protocol, runtime_checkable

__all__ = ("CallInfo", "CallLog", "IdempotencyKey", "LoggedCall", "current_call")

IdempotencyKey = NewType("IdempotencyKey", str)
"""Annotation of a parameter that gets the call's key instead of an argument. It is not shown to the model."""

_DIGEST: Final = 20


class CallInfo:
    """One call of a tool."""

    __slots__ = ("_flags", "_sent", "call_id", "name", "run", "session_id")

    def __init__(self, name: str, call_id: int, session_id: str, run: int, sent: str | bytes, flags: int = 0) -> None:
        self.name = name
        """The tool's name, as it was given."""
        self.call_id = call_id
        """As in `ToolCall`."""
        self.session_id = session_id
        self.run = run
        """The run's number in its session, from 1."""
        self._sent = sent
        """The arguments as the guest sent them; or the key, where that is known."""
        self._flags = flags

    @property
    def idempotency_key(self) -> str:
        """At most 80 letters, digits and `-`."""
        if isinstance(self._sent, bytes):
            told = b"%b\0%d\0%b" % (self.name.encode("utf-8", "surrogatepass"), self._flags, self._sent)
            self._sent = f"{self.session_id}-{self.call_id}-{hashlib.sha256(told).hexdigest()[:_DIGEST]}"
        return self._sent

    def __repr__(self) -> str:
        return f"CallInfo(name={self.name!r}, call_id={self.call_id}, idempotency_key={self.idempotency_key!r})"


def said_of(idempotency_key: str) -> str:
    """What that key says of the tool and its arguments, whatever the session and the call."""
    return idempotency_key.rpartition("-")[2]


@dataclasses.dataclass(frozen=True)
class LoggedCall:
    """What a log knows of a call that was begun."""

    idempotency_key: str
    call_id: int
    name: str
    """The tool's name, as it was given."""
    ok: bool | None = None
    """Whether it was answered with a value; `None`: it was not answered, as far as the log knows."""
    answer: bytes | None = None
    """What it was answered with, as `CallLog.answered` was told."""


@runtime_checkable
class CallLog(Protocol):
    """Keeps a record of calls where it survives the process. Its methods may be coroutine functions.

    What they raise ends the run (rolled back) or the `load`, and is passed on: no tool runs for a call that could not be noted. A session
    trusts its log as it trusts its key: keep it where only your application writes.
    """

    def started(self, call: CallInfo) -> Any:
        """The tool is about to run. Return when that is written for good."""
        ...

    def answered(self, call: CallInfo, ok: bool, answer: bytes) -> Any:
        """The tool answered with `answer` (JSON): its value, or (not `ok`) its error as the code gets it. The code has not got it yet."""
        ...

    def calls(self, session_id: str, since: int) -> Iterable[LoggedCall] | Any:
        """The calls of that session with a `call_id` of at least `since`: one for each key. Asked by `load`."""
        ...


_current: contextvars.ContextVar[CallInfo | None] = contextvars.ContextVar("gloveport_call", default=None)


def current_call() -> CallInfo | None:
    """The call that the current code is run for; `None` outside of tools."""
    return _current.get()


def enter_tool(call: CallInfo) -> None:
    """Make it the current call of the current context, for good: a call has a context of its own."""
    _current.set(call)
