"""What happens to a session between two whole writes of it: records that are appended to what a store has.

A trail begins where the stored dump ends. It holds what was asked of the guest, so that another host comes to the same state by asking
again; which calls were *begun*, noted before their tools run, so that none is repeated unnoticed after a host died; and what was spent.
Records are msgpack, each a tagged array. A segment of a store is a list of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import JournalError
from ..wire.messages import answered_call
from .budget import Budget

if TYPE_CHECKING:
    from .run import Run
    from .saved import SavedRun

__all__ = (
    "Part",
    "Totals",
    "Trail",
    "TrailRecord",
    "Waits",
    "decode_segment",
    "encode_segment",
    "settled_calls",
    "trail_parts",
)


class Began(msgspec.Struct, array_like=True, tag="B", frozen=True):
    """A run began."""

    number: int
    source: str
    ask: list[str] | None
    request: bytes


class Asked(msgspec.Struct, array_like=True, tag="A", frozen=True):
    """A further request of the run: an answer, or a timer that fired."""

    request: bytes


class Refused(msgspec.Struct, array_like=True, tag="F", frozen=True):
    """Calls that were not made: over budget, or denied."""

    calls: list[int]


class Started(msgspec.Struct, array_like=True, tag="S", frozen=True):
    """The tools of these calls are about to be run. Written before they are."""

    calls: list[int]


class Held(msgspec.Struct, array_like=True, tag="H", frozen=True):
    """A call that is handed out: its tool did nothing but ask for that, or the policy did."""

    call: int
    reason: str | None = None


class Reached(msgspec.Struct, array_like=True, tag="R", frozen=True):
    """How far the run had come after the requests before this: asking them again must come to the same."""

    used_ns: int
    paused: float
    digest: bytes
    undecided: list[int] = []
    """Open calls that were neither charged nor refused at that moment."""


class Waits(msgspec.Struct, array_like=True, tag="W", frozen=True):
    """The run waits for whoever drives the session, since then: epoch seconds by the store's clock."""

    since: float


class Ended(msgspec.Struct, array_like=True, tag="E", frozen=True):
    """The run completed."""

    number: int
    status: str
    digest: bytes


class Lost(msgspec.Struct, array_like=True, tag="L", frozen=True):
    """The run was rolled back."""

    number: int
    reason: str
    calls: dict[str, int]


class Totals(msgspec.Struct, array_like=True, tag="T", frozen=True):
    """The session's counters. The last one counts."""

    budget: Budget
    runs: int
    lost_runs: int
    last_call: int
    ids_lost: int
    issued: list[str]
    discovered: dict[str, str]


TrailRecord = Began | Asked | Refused | Started | Held | Reached | Waits | Ended | Lost | Totals

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[TrailRecord]).decode


def encode_segment(records: Sequence[TrailRecord]) -> bytes:
    """As bytes."""
    return _encode(records)


def decode_segment(data: bytes) -> list[TrailRecord]:
    """The reverse, of an (authentic) segment. Raises `JournalError`."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"a stored segment is malformed: {error}") from error


class Trail:
    """The records of a live session that its store does not have yet."""

    __slots__ = ("_announced", "_number", "_records")

    def __init__(self, number: int = 0, announced: int = 0) -> None:
        self._records: list[TrailRecord] = []
        self._number = number
        """The run whose beginning was noted last, here or in what is stored."""
        self._announced = announced
        """Requests that were noted before they were made."""

    def __bool__(self) -> bool:
        return bool(self._records)

    @property
    def announcing(self) -> bool:
        """Whether requests were noted that are not made yet."""
        return self._announced > 0

    def asked(self, run: Run, request: bytes) -> None:
        """A request was made."""
        if self._announced:
            self._announced -= 1
        elif run.number != self._number:
            self._number = run.number
            ask = None if run.ask is None else sorted(run.ask)
            self._records.append(Began(run.number, run.source, ask, request))
        else:
            self._records.append(Asked(request))

    def announce(self, run: Run, requests: Sequence[bytes]) -> None:
        """Requests will be made: what they tell the guest is known, and must not be lost."""
        self.reached(run)
        for request in requests:
            self.asked(run, request)
        self._announced = len(requests)

    def reached(self, run: Run) -> None:
        """The run came to where it is now."""
        if not self._announced:
            undecided = [call.id for call in run.open.values() if call.undecided]
            self._records.append(Reached(run.used_ns, run.paused, run.digest.value, undecided))

    def refused(self, calls: list[int]) -> None:
        """These calls are not made."""
        self._records.append(Refused(calls))

    def started(self, calls: list[int]) -> None:
        """The tools of these calls will be run."""
        self._records.append(Started(calls))

    def held(self, call: int, reason: str | None = None) -> None:
        """That call is handed out instead."""
        self._records.append(Held(call, reason))

    def waits(self, since: float) -> None:
        """The run is paused."""
        self._records.append(Waits(since))

    def ended(self, run: Run, status: str) -> None:
        """The run completed."""
        self._announced = 0
        self._records.append(Ended(run.number, status, run.digest.value))

    def lost(self, run: Run, reason: str) -> None:
        """The run was rolled back."""
        self._announced = 0
        self._records.append(Lost(run.number, reason, run.charged))

    def take(self) -> list[TrailRecord]:
        """The records, which are now the caller's."""
        records, self._records = self._records, []
        return records


class Part(msgspec.Struct):
    """What a trail says of one run."""

    number: int
    source: str = ""
    ask: frozenset[str] | None = None
    begun: bool = False
    """Its beginning is in the trail; else it was under way in the dump."""
    requests: list[bytes] = []
    refused: set[int] = msgspec.field(default_factory=set[int])
    started: dict[int, bool] = msgspec.field(default_factory=dict[int, bool])
    """What was said last: the tool begins, or the call is handed out instead."""
    held: dict[int, str | None] = msgspec.field(default_factory=dict[int, str | None])
    reached: Reached | None = None
    """The last place that is known. What was asked after it was not asked yet when the host died."""
    position: int = 0
    """How many of the requests lead there."""
    waits: float | None = None
    end: Ended | Lost | None = None

    @property
    def undecided(self) -> set[int]:
        """Open calls that nobody decided about, as far as is known."""
        return set(self.reached.undecided) if self.reached is not None else set()

    @property
    def done(self) -> list[bytes]:
        """The requests that were made."""
        return self.requests if self.end is not None else self.requests[: self.position]

    @property
    def owed(self) -> list[bytes]:
        """Those that were noted, and not made."""
        return [] if self.end is not None else self.requests[self.position :]


def settled_calls(requests: Iterable[bytes]) -> list[int]:
    """The calls that these requests answer."""
    return [call for request in requests if (call := answered_call(request)) is not None]


def trail_parts(records: Iterable[TrailRecord], run: SavedRun | None) -> tuple[list[Part], Totals | None]:
    """The runs of a trail in order, and the last counters. `run` is the one that is under way in the dump."""
    parts: list[Part] = []
    totals: Totals | None = None
    part = Part(run.number, requests=list(run.owed), waits=run.waits) if run is not None else None
    for record in records:
        if isinstance(record, Totals):
            totals = record
            continue
        if isinstance(record, Began):
            ask = None if record.ask is None else frozenset(record.ask)
            part = Part(record.number, record.source, ask, begun=True, requests=[record.request])
        elif isinstance(record, Lost) and part is None:  # it was lost in its first step
            continue
        elif part is None:
            raise JournalError("a stored segment speaks of a run that did not begin")
        else:
            _note(part, record)
        if not parts or parts[-1] is not part:
            parts.append(part)
        if part.end is not None:
            part = None
    return parts, totals


def _note(part: Part, record: TrailRecord) -> None:
    if isinstance(record, Asked):
        part.requests.append(record.request)
        part.waits = None
    elif isinstance(record, Reached):
        part.reached, part.position = record, len(part.requests)
    elif isinstance(record, Refused):
        part.refused.update(record.calls)
    elif isinstance(record, Started):
        part.started.update(dict.fromkeys(record.calls, True))
    elif isinstance(record, Held):
        part.held[record.call] = record.reason
        part.started[record.call] = False
    elif isinstance(record, Waits):
        part.waits = record.since
    elif isinstance(record, (Ended, Lost)):
        part.end = record
