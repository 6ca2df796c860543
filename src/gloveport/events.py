"""What `session.events()` tells of a session while it works.

Every event has the number of its `run` and a `sequence`, which grows by one from event to event of a session object, so that
someone who was away can tell that something is missing. Texts are cleaned as in results; arguments and values are not told.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from .errors import PolicyError

__all__ = (
    "CallEnded",
    "CallStarted",
    "ConsoleOutput",
    "ConsoleTruncated",
    "Event",
    "EventsMissed",
    "PolicyFailed",
    "RunEnded",
    "RunStarted",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """What all events have."""

    run: int
    """The run's number in its session, from 1; it goes on counting through `dump` and `load`."""
    sequence: int
    """From 1 for the first event after the first `events()`."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """Code began to run. Code that does not compile never does."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleOutput(Event):
    """A console call; or, after a `ConsoleTruncated`, the end of a stream that was too long (several lines)."""

    stream: Literal["stdout", "stderr"]
    text: str
    """Without the newline at its end."""


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleTruncated(Event):
    """Here a stream went over `max_output_bytes`: what came between its beginning and its end was dropped."""

    stream: Literal["stdout", "stderr"]
    lines: int
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class CallStarted(Event):
    """The code called a tool, and no budget forbids it. The tool itself begins when its turn comes, or the call is handed out."""

    call_id: int
    tool: str


@dataclasses.dataclass(frozen=True, slots=True)
class CallEnded(Event):
    """A call was answered. Calls of a run that was rolled back are not; see `RunEnded`."""

    call_id: int
    tool: str
    ok: bool
    """Whether with a value; else with an error."""
    refused: bool = False
    """The call was never made: a budget is spent, the tool was not found, the policy said no."""


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyFailed(Event):
    """The policy failed; the call was denied."""

    call_id: int
    tool: str
    error: PolicyError


@dataclasses.dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run is over."""

    status: Literal["Succeeded", "Failed"]
    error_type: str | None = None
    """As in `ExecutionResult`."""


@dataclasses.dataclass(frozen=True, slots=True)
class EventsMissed(Event):
    """The listener was too slow: that many events before this one were dropped. It has the numbers of the last of them."""

    count: int
