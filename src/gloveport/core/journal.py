"""The append-only record of a session: what was asked of the guest, what it was answered, and what came out.

The guest's requests are recorded as they went over the wire, so replay is sending them again. Records are msgpack, each a
tagged array; `Ended.digest` lets a replay be compared with the original without keeping what the guest said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Sequence

import msgspec

from ..errors import JournalError
from ..wire.messages import Call, DoneMessage, FailMessage, Message
from .saved import TailRun

__all__ = (
    "Digest",
    "Ended",
    "Journal",
    "Lost",
    "Opened",
    "Ran",
    "Record",
    "Settled",
    "committed",
    "decode_records",
    "recorded_runs",
)


class Opened(msgspec.Struct, array_like=True, tag="O", frozen=True):
    """The session's first request: clock, seed and tools."""

    request: bytes


class Ran(msgspec.Struct, array_like=True, tag="R", frozen=True):
    """A run began: its code as it was given, and the request: compiled (`R`), or as it was written (`P`)."""

    number: int
    source: str
    request: bytes


class Settled(msgspec.Struct, array_like=True, tag="S", frozen=True):
    """A call was answered, a timer fired, or the random stream was reseeded."""

    request: bytes


class Ended(msgspec.Struct, array_like=True, tag="E", frozen=True):
    """A run completed."""

    number: int
    status: str
    digest: bytes


class Lost(msgspec.Struct, array_like=True, tag="L", frozen=True):
    """A run was rolled back; the calls that it made stay charged."""

    number: int
    reason: str
    calls: dict[str, int]


Record = Opened | Ran | Settled | Ended | Lost

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode


class Digest:
    """What a run did, as far as it must be the same again: its calls with their arguments, and how it ended.

    Error texts are left out (an engine may word them otherwise), and so is console output.
    """

    __slots__ = ("value",)

    def __init__(self, value: bytes = b"") -> None:
        self.value = value
        """32 bytes, or nothing yet. A chain of hashes rather than one running hash, so that it can be saved in between."""

    def add(self, messages: Iterable[Message]) -> None:
        """Take in the messages of a step."""
        for message in messages:
            if isinstance(message, Call):
                self._update(b"call", message.n.encode("utf-8", "surrogatepass"), bytes(message.a))
            elif isinstance(message, DoneMessage):
                self._update(b"done", b"", b"" if isinstance(message.v, msgspec.UnsetType) else bytes(message.v))
            elif isinstance(message, FailMessage):
                self._update(
                    b"fail",
                    message.kind.encode("utf-8", "surrogatepass"),
                    message.name.encode("utf-8", "surrogatepass"),
                )

    def _update(self, kind: bytes, name: bytes, data: bytes) -> None:
        self.value = hashlib.sha256(b"%b%b%d %d %b%b" % (self.value, kind, len(name), len(data), name, data)).digest()


class Journal:
    """The records of one session, within `max_bytes`. Past that it is `overflowed`: it cannot be saved any more."""

    __slots__ = ("_max", "_size", "overflowed", "records")

    def __init__(self, max_bytes: int, records: Sequence[Record] = ()) -> None:
        self._max = max_bytes
        self._size = 0
        self.overflowed = False
        self.records: list[Record] = []
        self.extend(records)

    def extend(self, records: Iterable[Record]) -> None:
        """Append records. What no longer fits is not kept, and nothing after it."""
        for record in records:
            if self.overflowed:
                return
            self._size += _size(record)
            if self._size > self._max:
                self.overflowed = True
                self.records.clear()
                return
            self.records.append(record)

    def encode(self, more: Sequence[Record] = ()) -> bytes:
        """All records, and `more` of a run that is under way."""
        if self.overflowed:
            raise JournalError("the journal is over `max_journal_bytes`; dump without `journal=True`")
        return _encode([*self.records, *more])


def _size(record: Record) -> int:
    if isinstance(record, (Opened, Settled)):
        return len(record.request) + 8
    if isinstance(record, Ran):
        return len(record.request) + len(record.source) + 16
    return 48


def decode_records(data: bytes) -> list[Record]:
    """The records of an (authentic) journal."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"the journal is malformed: {error}") from error


def committed(data: bytes) -> list[Record]:
    """The records up to the last run that is complete."""
    records = decode_records(data)
    last = max((index for index, record in enumerate(records) if isinstance(record, (Opened, Ended, Lost))), default=-1)
    return records[: last + 1]


def recorded_runs(data: bytes) -> Generator[tuple[TailRun, bool], None, None]:
    """The runs of a journal: the requests of each, and whether it ended."""
    requests: list[bytes] = []
    for record in decode_records(data):
        if isinstance(record, Opened):
            yield TailRun([record.request], b""), True
        elif isinstance(record, (Ran, Settled)):
            requests.append(record.request)
        elif isinstance(record, Ended):
            yield TailRun(requests, record.digest), True
            requests = []
    if requests:
        yield TailRun(requests, b""), False
