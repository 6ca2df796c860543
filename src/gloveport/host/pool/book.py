"""What the store knows of a live session, and how it is told more.

A record is a sealed dump and the sealed segments of its trail since. A segment costs a few hundred bytes and no work of the guest, so it
is what is written; the whole dump is written when the session is made, when its rollback point has become another one, and when the
segments have grown. Each part is bound to the session and to the version that the store gives it: none can be left out, swapped or
replaced by an older one without being noticed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..._version import __version__
from ...core.budget import Budget
from ...core.saved import SavedSession, decode_saved, encode_saved
from ...core.seal import SealingKey, seal, unseal
from ...core.session import Session
from ...core.trail import TrailRecord, decode_segment, encode_segment
from ...errors import (
    JournalError,
    JournalTooLarge,
    LeaseLost,
    StaleJournal,
    StoreError,
    WorkerCrashed,
)
from ...stores import Record
from ..async_driver import AsyncDriver
from .names import Name
from .tenure import StoreAccess, Tenure

__all__ = ("Book", "Keeping")

_REST_SEGMENTS: Final = 32
_REST_BYTES: Final = 64 * 1024
"""At rest, more than that is replaced by a whole dump: waking costs what the dump costs, and a little for each segment."""
_RUN_SEGMENTS: Final = 512
_RUN_BYTES: Final = 512 * 1024
"""The same in the middle of a run, where a dump means more work."""
_REST_NS: Final = 20_000_000
_RUN_NS: Final = 200_000_000
"""Nanoseconds that a run has computed since the stored dump, and that waking would have to compute again."""
_tally_decoder: Final = msgspec.msgpack.Decoder(dict[str, int])


class Keeping(msgspec.Struct, frozen=True):
    """How a pool keeps its sessions."""

    key: SealingKey
    ttl: float | None
    counter_ttl: float | None
    max_bytes: int
    journal: bool


class Book:
    """One session's record, while this host holds its lease."""

    def __init__(self, access: StoreAccess, name: Name, keeping: Keeping, tenure: Tenure) -> None:
        self.name = name
        self.tenure = tenure
        self.version: int | None = tenure.lease.version if tenure.lease.exists else None
        self.broken: Exception | None = None
        """Why nothing more can be written: what is in memory and what is stored may differ."""
        self._access = access
        self._keeping = keeping
        self._base: list[bytes] | None = None
        """The rollback point's image that the stored dump holds."""
        self._spent = 0
        """Calls that the store counted, in the record that was read."""
        self._segments = 0
        self._size = 0
        self._dump_size = 0
        self._computed = (0, 0)
        """The run that was under way in the stored dump, and how long it had computed."""
        self._writing = False
        self._told: float | None = None
        """Since when the store knows the run to be paused."""

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def spent_before(self) -> Budget | None:
        """What a session that is gone has spent; `None` if there is nothing. Raises `JournalError`."""
        lease, keeping = self.tenure.lease, self._keeping
        if not lease.spent:
            return None
        try:
            made = _tally_decoder.decode(unseal(lease.tally, keeping.key, self.name.binding("tally", lease.spent)))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise JournalError(f"the stored calls per tool of {self.name} are malformed: {error}") from error
        return Budget(None, lease.spent, {}, made)

    async def read(self) -> tuple[SavedSession, list[TrailRecord]]:
        """The stored session, authenticated and decoded.

        Raises `RecordNotFound`, and `JournalError` for what is not authentic or not as it was written last.
        """
        record = await self._access.perform(self._access.store.get, self.name.key)
        if (
            record.version != self.tenure.lease.version
        ):  # someone wrote since the lease was given: they had a newer one, or still have
            await self.tenure.renew()
        base = record.version - len(record.segments)
        keeping = self._keeping
        limit = keeping.max_bytes
        saved = decode_saved(unseal(record.blob, keeping.key, self.name.binding("dump", base), max_bytes=limit))
        trail: list[TrailRecord] = []
        for number, segment in enumerate(record.segments, base + 1):
            data = unseal(segment, keeping.key, self.name.binding("segment", number), max_bytes=limit)
            trail += decode_segment(data)
        self.version = record.version
        self._segments, self._size = len(record.segments), sum(map(len, record.segments))
        self._dump_size = len(record.blob)
        self._base, self._spent = saved.base, record.spent
        if saved.run is not None:
            self._computed = (saved.run.number, saved.run.used_ns)
        return saved, trail

    def waits_since(self, waits: float | None) -> None:
        """What was read says that the run is paused since then."""
        self._told = waits

    def check_spent(self, core: Session) -> None:
        """Raise `StaleJournal` if the session has spent less (or more) than the store counted."""
        counted = self._spent
        if core.budget.made != counted:
            raise StaleJournal(
                f"{self.name} was charged {counted} calls, and what is stored of it says {core.budget.made}: "
                "an older state was put back; drop() the session to begin anew"
            )

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def write(
        self,
        core: Session,
        driver: AsyncDriver,
        *,
        waits: float | None = None,
        resting: bool = True,
        release: bool = False,
    ) -> None:
        """Tell the store what it does not know yet; with `release` also that this host is done.

        `waits`: since when the run is paused; `None`: it is not. Any error of the store (`LeaseLost` above all) and `JournalTooLarge`
        end this session here: another one is made from what is stored.
        """
        if self.broken is not None:
            raise self.broken
        try:
            await self._write(core, driver, waits, resting, release)
            self._told = waits
        except (StoreError, JournalError) as error:
            self.broken = error
            raise
        finally:
            if self._writing and self.broken is None:  # cancelled, and what became of it is not known
                self.broken = StoreError(f"a write of {self.name} was cancelled and failed")

    async def _write(
        self, core: Session, driver: AsyncDriver, waits: float | None, resting: bool, release: bool
    ) -> None:
        records = core.take_trail(None if waits == self._told else waits)
        self._writing = bool(records)  # taken, and nowhere else until they are stored
        if not records:
            if release:
                await self._access.perform(self._access.store.release, self.tenure.lease)
        elif self._whole_is_due(core, resting):
            try:
                blob = await self._dump(core, driver, waits)
            except WorkerCrashed:  # the run is lost with its guest, and the trail says so
                await self._append(core, [*records, *core.take_trail()], release)
                raise
            if len(blob) <= self._keeping.max_bytes:
                await self._put(core, blob, release)
            else:  # as long as there is room, the session goes on in segments
                await self._append(core, records, release)
        else:
            await self._append(core, records, release)

    async def create(self, core: Session, driver: AsyncDriver) -> None:
        """Write a new session, or one that could not be read."""
        core.take_trail()
        blob = await self._dump(core, driver, None)
        if len(blob) > self._keeping.max_bytes:
            raise JournalTooLarge(
                f"{self.name} has {len(blob)} bytes; max_journal_bytes allows {self._keeping.max_bytes}"
            )
        await self._put(core, blob, release=False)

    def _whole_is_due(self, core: Session, resting: bool) -> bool:
        if core.trail is not None and core.trail.announcing:  # what the guest is about to be told is in no dump yet
            return False
        number, before = self._computed
        run = core.run
        computed = 0 if run is None else run.used_ns - (before if run.number == number else 0)
        if resting and core.base is not self._base:
            return True
        segments, size, ns = (
            (_REST_SEGMENTS, _REST_BYTES, _REST_NS) if resting else (_RUN_SEGMENTS, _RUN_BYTES, _RUN_NS)
        )
        return self._segments >= segments or self._size >= size or computed >= ns

    async def _put(self, core: Session, blob: bytes, release: bool) -> None:
        record = Record(
            key=self.name.key,
            blob=blob,
            spent=core.budget.made,
            tally=self._tally(core),
            label=f"{self.name.owner}/{self.name.sid}",
            pending=_pending(core),
            ttl=self._keeping.ttl,
            counter_ttl=self._keeping.counter_ttl,
        )
        expected = self._next
        self._writing = True
        await self._access.perform(
            self._access.store.put,
            record,
            expect=self.version,
            token=self.tenure.token,
            release=release,
            then=lambda version: self._wrote(version, core, len(blob)),
        )
        if self.version != expected:
            raise StoreError(f"the store numbers {self.name} in a way of its own: {self.version}, not {expected}")

    def _wrote(self, version: int, core: Session, size: int) -> None:
        self._writing = False
        self.version, self._base, self._dump_size = version, core.base, size
        self._computed = (0, 0) if core.run is None else (core.run.number, core.run.used_ns)
        self._segments = self._size = 0

    def _appended(self, version: int, size: int) -> None:
        self._writing = False
        self.version = version
        self._segments += 1
        self._size += size

    async def _dump(self, core: Session, driver: AsyncDriver, waits: float | None) -> bytes:
        guest = driver.engine.build
        try:
            saved: SavedSession = await driver.drive(
                core.save(release=__version__, guest=guest, journal=self._keeping.journal)
            )
        except JournalError:  # it has none any more; the image alone still serves this build
            saved = await driver.drive(core.save(release=__version__, guest=guest))
        if saved.run is not None:
            saved.run.waits = waits
        return seal(encode_saved(saved), self._keeping.key, self.name.binding("dump", self._next))

    async def _append(self, core: Session, records: list[TrailRecord], release: bool) -> None:
        segment = seal(encode_segment(records), self._keeping.key, self.name.binding("segment", self._next))
        if self._dump_size + self._size + len(segment) > self._keeping.max_bytes:
            raise JournalTooLarge(
                f"{self.name} has grown over max_journal_bytes ({self._keeping.max_bytes} bytes); "
                "free what it keeps on globalThis, or allow more"
            )
        assert self.version is not None
        self._writing = True
        await self._access.perform(
            self._access.store.append,
            self.name.key,
            segment,
            expect=self.version,
            spent=core.budget.made,
            tally=self._tally(core),
            pending=_pending(core),
            token=self.tenure.token,
            release=release,
            then=lambda version: self._appended(version, len(segment)),
        )

    @property
    def _next(self) -> int:
        """The version that the next write gets: nobody else writes while the lease lasts."""
        return (self.tenure.lease.version if self.version is None else self.version) + 1

    def _tally(self, core: Session) -> bytes:
        budget = core.budget
        if not budget.made:
            return b""
        made = msgspec.msgpack.encode(budget.tool_made)
        return seal(made, self._keeping.key, self.name.binding("tally", budget.made))

    async def ensure(self) -> None:
        """Return only if this host may go on. Raises `LeaseLost`."""
        if self.broken is not None:
            raise self.broken
        try:
            await self.tenure.ensure()
        except StoreError as error:
            self.broken = error
            raise

    def lose(self, error: LeaseLost) -> None:
        """Someone else may have taken over."""
        if self.broken is None:
            self.broken = error


def _pending(core: Session) -> str | None:
    step = core.pending
    return None if step is None else step.name
