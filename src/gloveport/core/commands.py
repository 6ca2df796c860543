"""What a session may ask the world to do. Each says what it is answered with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ..calls import CallInfo

__all__ = (
    "Answer",
    "Await",
    "Awaited",
    "Boot",
    "Cancel",
    "Command",
    "Compile",
    "Compiled",
    "Dump",
    "GuestCommand",
    "Judge",
    "Launch",
    "LinkLost",
    "Load",
    "Note",
    "OpenCall",
    "Persist",
    "Release",
    "Replay",
    "Ruling",
    "Retrace",
    "Step",
)


class Compiled(Protocol):
    """What the compiler made of a source."""

    @property
    def code(self) -> str: ...

    def locate(self, line: int, column: int = 0) -> tuple[int, int]:
        """A place in `code` (its first line is the prelude) as a place in the source; zeros outside of it."""
        ...


class OpenCall(msgspec.Struct):
    """A tool call that has no answer yet."""

    id: int
    name: str
    """As the guest calls it."""
    args: bytes
    """The arguments, undecoded."""
    flags: int
    handed: bool = False
    """Launched: the real tool works on it."""
    held: bool = False
    """Kept for whoever drives the session with `start` and `resume`."""
    started: bool = False
    """A store was told that its tool is about to be run."""
    undecided: bool = False
    """Nobody decided yet whether it is made; it is not charged."""
    reason: str | None = None
    """Why the policy wants someone to be asked."""
    unknown: bool = False
    """Its tool began for it before, and nobody knows how it ended: a log says so, or another call ended the run around it."""


class Ruling(msgspec.Struct, frozen=True):
    """What a policy decided about a call."""

    kind: Literal["allow", "deny", "ask"]
    reason: str = ""
    end_run: bool = False
    name: str = "ToolDeniedError"
    """The name of the error that a denial is for the guest."""
    error: BaseException | None = None
    """Why the policy failed."""


class Answer(msgspec.Struct, gc=False):
    """What became of a launched call."""

    call_id: int
    ok: bool
    payload: bytes
    """The value, or `{"name", "message"}`, as wire JSON."""
    fatal: BaseException | None = None
    """The tool raised something that is not an answer: `SystemExit`, `KeyboardInterrupt`, a cancellation."""
    pause: bool = False
    """The tool raised `PauseRequested`: hold the call instead of answering it."""
    ruling: Ruling | None = None
    """This is no answer of a tool, but what a policy decided after a while."""


class Awaited(msgspec.Struct, gc=False):
    """What came while waiting."""

    elapsed: float
    """Seconds since the previous wait ended or since the first launch after it."""
    answers: list[Answer]
    """In the order they came; empty when the time ran out first."""


class LinkLost(Exception):
    """Thrown into a session by a driver: the worker is gone, or was killed. The driver has released it."""

    def __init__(self, reason: Literal["died", "timeout", "memory", "protocol"], detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.output = b""
        """What the guest said before in the request under way."""
        self.clock_reads = 0
        """How often it had read the clock, as far as it was told."""


@dataclasses.dataclass(slots=True)
class Compile:
    """→ `Compiled`, or throws `CompileError`."""

    source: str
    script: bool = False
    """Its value is that of its last statement, if that is an expression."""


@dataclasses.dataclass(slots=True)
class Boot:
    """Take a fresh guest. → `None`"""


@dataclasses.dataclass(slots=True)
class Step:
    """One guest request within `limit` seconds. → `Reply`, or throws `LinkLost`."""

    request: bytes
    limit: float


@dataclasses.dataclass(slots=True)
class Replay:
    """Several requests in order; stops at the first that is not ok. → `Reply` with the whole output, or throws `LinkLost`."""

    requests: Sequence[bytes]
    limit: float


@dataclasses.dataclass(slots=True)
class Retrace:
    """The requests of whole runs in one message; `hear` is given what the guest says, in parts and without its logs.

    → `Reply` without output, or throws `LinkLost`. For engines without images.
    """

    requests: Sequence[bytes]
    limit: float
    hear: Callable[[bytes], None]


@dataclasses.dataclass(slots=True)
class Dump:
    """→ `bytes`: the image; with `reference`, only what differs from that image."""

    reference: bytes | None = None


@dataclasses.dataclass(slots=True)
class Load:
    """Apply images to a fresh guest. → `None`, or throws `ImageError`."""

    images: Sequence[bytes]


@dataclasses.dataclass(slots=True)
class Release:
    """Give the guest back: its worker dies. → `None`"""


@dataclasses.dataclass(slots=True)
class Launch:
    """Start the real tool for a call; its answer comes from `Await`. → `None`"""

    call: OpenCall
    info: CallInfo


@dataclasses.dataclass(slots=True)
class Judge:
    """Ask the policy about a call. → `(Ruling, seconds)`; `(None, seconds)`: the ruling comes from `Await`."""

    call: OpenCall
    info: CallInfo
    calls_made: int
    calls_remaining: int | None


@dataclasses.dataclass(slots=True)
class Note:
    """Tell the call log that these calls begin, or what they were answered with. → `None`, or throws what the log raises."""

    started: Sequence[CallInfo] = ()
    answered: Sequence[tuple[CallInfo, bool, bytes]] = ()


@dataclasses.dataclass(slots=True)
class Await:
    """Wait for answers of launched calls, at most `timeout` seconds. → `Awaited`"""

    timeout: float


@dataclasses.dataclass(slots=True)
class Persist:
    """Write the trail to the store before what comes next. → `None`, or throws what the store raises.

    Only for sessions with a trail. `answers`: what comes next is telling the guest answers that tools gave.
    """

    answers: bool = False


@dataclasses.dataclass(slots=True)
class Cancel:
    """Forget all launched calls; late answers are dropped. → `None`"""


GuestCommand = Step | Replay | Retrace | Dump | Load
"""What goes to the guest."""
Command = Compile | Boot | GuestCommand | Release | Judge | Launch | Note | Await | Persist | Cancel
CommandResult = Any
