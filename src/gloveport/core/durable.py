"""What makes a session durable: the rollback point, replay, images, and saving, loading and branching."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NoReturn

import msgspec

from ..calls import LoggedCall
from ..errors import (
    GloveportError,
    ImageError,
    JournalError,
    MemoryLimitExceeded,
    ProtocolViolation,
    ReplayDivergence,
    SessionClosedError,
    WorkerCrashed,
)
from ..policy import Limits
from ..wire import messages as wire
from .budget import Budget
from .commands import Boot, Dump, LinkLost, Load, OpenCall, Release, Replay, Retrace, Step
from .discovery import CatalogTools, Discovery
from .journal import Digest, Ended, Journal, Lost, Opened, Record, Settled, committed, recorded_runs
from .retelling import Retelling
from .run import Run
from .saved import FORMAT, Identity, SavedRun, SavedSession, TailRun
from .sources import Sources
from .trail import Ended as EndedRun
from .trail import Lost as LostRun
from .trail import Part, Totals, Trail, TrailRecord, settled_calls, trail_parts

__all__ = ("HOUSEKEEPING", "DurableSession", "Steps", "request_parts")

Steps = Generator[Any, Any, Any]

HOUSEKEEPING: Final = 60.0
"""Seconds for what the host asks for by itself: replay of a part, garbage collection."""
_CHECKPOINT_RATIO: Final = 10
_CHECKPOINT_NS: Final = 1_000_000
"""What an image costs, until one was taken; measured 0.7 to 1.2 ms for a small heap."""
_MAX_TAIL_BYTES: Final = 64 * 1024
_MAX_TAIL_RUNS: Final = 500
_REPLAY_PART: Final = 2 * 1024 * 1024
_REPLAY_COUNT: Final = 512
_RETELL_PART: Final = 48 * 1024 * 1024


class DurableSession:
    """The part of a session that outlives its worker. `Session` adds the runs."""

    def __init__(
        self,
        session_id: str,
        identity: Identity,
        limits: Limits,
        js_names: list[str],
        catalog: CatalogTools | None = None,
    ) -> None:
        self.id = session_id
        self.identity = identity
        self.has_images = identity.engine == "wasm"
        """Whether the heap can be saved as it is. If not, the session is its history: every run is replayed in a fresh guest."""
        self.limits = limits
        self.budget = Budget(
            limits.max_tool_calls, tool_limits=dict(limits.tool_budgets), run_limits=dict(limits.run_budgets)
        )
        self.runs: int = 0
        self.lost_runs: int = 0
        self.closed = False
        self.run: Run | None = None
        self.live = False
        self.last_call = 0
        """The guest's last call id at the rollback point."""
        self.ids_lost = 0
        """Ids that lost runs used up: a rollback sets the guest's counter back, but no id is shown twice."""
        self.issued: set[str] = set()
        """Names of errors that the host gave to the guest, which may therefore come back from it."""
        self.discovery = Discovery(catalog)
        self.logged: dict[str, LoggedCall] = {}
        """What a log knows of calls that this session has not made, by key: the process died that made them."""
        self.counted: set[str] = set()
        """Keys of those of them that were charged by a load."""
        opened = wire.open_request(
            clock_ms=identity.clock_ms,
            seed=identity.seed,
            frozen=identity.frozen_clock,
            namespace=identity.namespace,
            tools=js_names,
            bootstrap=identity.bootstrap,
            catalog=None if catalog is None else catalog.object,
        )
        self.journal: Journal | None = None
        """Kept beside images. Without them `tail` is all of it."""
        if self.has_images:
            self.journal = Journal(limits.max_journal_bytes, [Opened(opened)])
        self.trail: Trail | None = None
        """What a store does not have yet; `None`: no store follows this session."""
        self.sources = Sources()
        """Of the completed runs, for a type checker."""
        self.saves_sources = False
        """Whether a dump holds them: it grows with them, up to 64 KiB."""
        self._suspended: bytes | None = None
        """The image of a paused run whose guest was given back."""
        self._image_ns = _CHECKPOINT_NS
        self._set_rollback([], [TailRun([opened], b"")])

    def check_open(self) -> None:
        """Raise unless the session is open."""
        if self.closed:
            raise SessionClosedError("the session is closed; make a new one, or load a dump of it")

    # ── the rollback point ───────────────────────────────────────────────────────────────────────────────────────────

    def _set_rollback(self, base: list[bytes], tail: list[TailRun]) -> None:
        self.base = base
        """An image, or nothing; and what differs from it where the last completed run was restored from an image of its own."""
        self.tail: list[TailRun] = []
        """The completed runs since."""
        self._tail_ns = self._tail_bytes = 0
        for part in tail:
            self._append_tail(part, 0)

    def _append_tail(self, part: TailRun, ns: int) -> None:
        self.tail.append(part)
        self._tail_ns += ns
        self._tail_bytes += sum(map(len, part.requests))

    def lose(self, run: Run, error: GloveportError) -> None:
        """Undo a run: what it did is forgotten, what it spent is not."""
        self.live = False
        self.run = self._suspended = None
        self.lost_runs += 1
        if self.trail is not None:
            self.trail.lost(run, error.code)
        self.ids_lost += run.last_call - self.last_call
        if self.journal is not None:
            self.journal.extend([Lost(run.number, error.code, run.charged)])

    def commit(self, run: Run, status: str) -> None:
        """A run is complete: it becomes part of the rollback point."""
        self.run = None
        self.last_call = run.last_call
        self.sources.add(run.source)
        if self.trail is not None:
            self.trail.ended(run, status)
        if run.requests is None or run.before is None:
            self.journal = None
        if run.requests is None:  # only an image can hold it
            return
        if run.images:
            self._set_rollback([*self.base[:1], *run.images], [])
        self._append_tail(TailRun(run.requests, run.digest.value, run.begun), run.used_ns)
        if self.journal is not None:
            self.journal.extend([*run.records(), Ended(run.number, status, run.digest.value)])

    def tail_is_long(self) -> bool:
        """Whether replaying what came since the image would cost ten times what an image costs."""
        return self.has_images and (
            self._tail_ns > _CHECKPOINT_RATIO * self._image_ns
            or len(self.tail) > _MAX_TAIL_RUNS
            or self._tail_bytes > _MAX_TAIL_BYTES
        )

    def has_room(self, run: Run) -> bool:
        """Whether what is asked of the guest can still be kept, where nothing else can bring its state back."""
        return self.has_images or self._tail_bytes + run.request_bytes <= self.limits.max_journal_bytes

    def checkpoint(self) -> Steps:
        """Make the heap as it is now the rollback point. Only between runs."""
        collected = yield Step(wire.GC_REQUEST, HOUSEKEEPING)
        image = yield Dump()
        self._image_ns = max(_CHECKPOINT_NS, collected.ns + 20 * len(image))
        self._set_rollback([image], [])

    # ── a fresh guest ────────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self) -> Steps:
        """Have a live guest, and the pending run in it if there is one."""
        self.check_open()
        try:
            yield from self._whole(self.revive())
        except ReplayDivergence as error:  # of a worker that has only just begun: its own doing
            yield Release()
            raise WorkerCrashed(f"{error}; try again") from error

    def _whole(self, steps: Steps) -> Steps:
        """Outside of runs a lost worker is an error of its own; what was saved before is unharmed."""
        try:
            return (yield from steps)
        except (LinkLost, ProtocolViolation, ImageError) as error:
            self.live = False
            yield Release()
            raise WorkerCrashed(f"{error}; try again") from error

    def revive(self) -> Steps:
        """Have a live guest: boot one, load the image, replay what came since."""
        if self.live:
            return
        yield Boot()
        if not self.has_images:
            yield from self._retell(self.tail, self.run)
        elif self._suspended is not None:
            yield Load([*self.base[:1], self._suspended])
            self._suspended = None
        else:
            if self.base:
                yield Load(self.base)
            for part in self.tail:
                yield from self._replay(part)
        self.live = True

    def suspend(self) -> Steps:
        """Give the guest of an idle or paused session back. The next use has a new one, in the same state."""
        try:
            if self.live and self.run is not None and self.has_images:
                self._suspended = yield from self._image_of_run()
        except (LinkLost, ImageError, ProtocolViolation) as lost:
            if self.run is not None:
                self.lose(self.run, WorkerCrashed(f"the worker died while the session was paused ({lost})"))
        self.live = False
        yield Release()

    def _image_of_run(self) -> Steps:
        if self._suspended is not None:
            return self._suspended
        yield Step(wire.GC_REQUEST, HOUSEKEEPING)
        return (yield Dump(self.base[0] if self.base else None))

    def _retell(self, tail: list[TailRun], run: Run | SavedRun | None) -> Steps:
        """Have a fresh guest go through a whole history, in as few messages as frames allow: usually one."""
        parts = list(tail)
        if run is not None:
            digest = run.digest if isinstance(run, SavedRun) else run.digest.value
            parts.append(TailRun(run.requests or [], digest))
        retelling = Retelling(parts, unfinished=run is not None)
        limit = HOUSEKEEPING + self.limits.timeout * len(parts)
        requests = [request for part in parts for request in part.requests]
        for some in request_parts(requests, size=_RETELL_PART, count=len(requests)):
            reply = yield Retrace(some, limit, retelling.hear)
            if reply.status != wire.OK:
                self._diverged()
        if not retelling.complete:
            self._diverged()

    def _replay(self, part: TailRun) -> Steps:
        digest = Digest(part.begun)
        for requests in request_parts(part.requests):
            reply = yield Replay(requests, HOUSEKEEPING + self.limits.timeout)
            digest.add(wire.decode_output(reply.output))
            if reply.status != wire.OK:
                self._diverged()
        if digest.value != part.digest:
            self._diverged()

    def _diverged(self) -> NoReturn:
        raise ReplayDivergence("replaying the session gave another outcome than the one recorded")

    # ── saving, loading, branching ───────────────────────────────────────────────────────────────────────────────────

    def save(self, *, release: str, guest: str, journal: bool = False) -> Steps:
        """→ `SavedSession`. An idle session becomes its image; a paused one keeps its rollback point beside the image."""
        self.check_open()
        records = self._journal_bytes() if journal and self.has_images else None
        try:
            return (yield from self._save(release, guest, records))
        except (LinkLost, ImageError, ProtocolViolation) as lost:
            yield Release()
            self.live = False
            if self.run is not None:
                error = WorkerCrashed(f"the worker died while the session was paused ({lost}); the run was rolled back")
                self.lose(self.run, error)
                raise error from lost
        return (yield from self._save(release, guest, records))  # the rollback point needs no worker

    def _save(self, release: str, guest: str, records: bytes | None) -> Steps:
        saved_run: SavedRun | None = None
        if self.run is not None and not self.has_images:
            saved_run = self.run.save([])
        elif self.run is not None:
            image = yield from self._image_of_run()
            saved_run = self.run.save([image])
        elif self.live and self.has_images and len(self.tail) > (0 if self.base else 1):
            yield from self.checkpoint()
        return SavedSession(
            FORMAT,
            release,
            guest,
            self.id,
            self.identity,
            self.budget,
            self.limits.max_result_bytes,
            self.limits.max_output_bytes,
            self.runs,
            self.lost_runs,
            self.last_call,
            self.ids_lost,
            sorted(self.issued),
            list(self.base),
            list(self.tail),
            saved_run,
            records,
            dict(self.discovery.found),
            sorted(self.counted),
            self.sources.saved() if self.saves_sources else None,
        )

    def _journal_bytes(self) -> bytes:
        if self.journal is None:
            raise JournalError(
                "this session has no journal: it was loaded from a dump without one, or a run outgrew it"
            )
        run = self.run
        if run is not None and (run.requests is None or run.before is None):
            raise JournalError("the run under way is not in the journal: it outgrew it, or was loaded from a dump")
        return self.journal.encode([] if run is None else run.records())

    def restore(self, saved: SavedSession, *, guest: str, trail: Sequence[TrailRecord] = ()) -> Steps:
        """Become the saved session, and what its trail says since. Called once, on a new session made for it.

        → since when the run under way waits for whoever drives the session; `None` when there is none, or it did not get so far.
        """
        parts, totals = trail_parts(trail, saved.run)
        if saved.run is not None and any(isinstance(part.end, LostRun) and not part.begun for part in parts):
            saved = msgspec.structs.replace(saved, run=None)
        yield from self._whole(self._restore(saved, guest))
        waits = saved.run.waits if saved.run else None
        for part in parts:
            if isinstance(part.end, LostRun):
                waits = None
                self._note_lost(part.end)
            else:
                yield from self._whole(self._retrace(part))
                waits = part.waits
        if totals is not None:
            self._count_on(totals)
        return waits

    def _note_lost(self, end: LostRun) -> None:
        if self.journal is not None:
            self.journal.extend([Lost(end.number, end.reason, end.calls)])

    def _retrace(self, part: Part) -> Steps:
        """Do again what a trail says of a run."""
        if part.begun:
            self.run = Run(part.number, part.source, self.limits, self.last_call, has_images=self.has_images)
            self.run.ask = part.ask
        run = self.run
        if run is None or run.number != part.number:
            raise JournalError("a stored segment speaks of a run that did not begin")
        yield from self._ask_again(run, part)
        if part.reached is not None and part.end is None:
            if run.digest.value != part.reached.digest:
                self._diverged()
            run.used_ns, run.paused = part.reached.used_ns, part.reached.paused
        run.owed = part.owed
        for call in run.open.values():
            call.held = call.held or call.id in part.held
            call.reason = part.held.get(call.id, call.reason)
            call.started = part.started.get(call.id, call.started)
        run.leave_undecided(part.undecided)
        if isinstance(part.end, EndedRun):
            if run.digest.value != part.end.digest or run.finished is None:
                self._diverged()
            self.commit(run, part.end.status)
            if run.requests is None:  # it began before the dump: only an image can hold what it left
                yield from self.checkpoint()

    def _ask_again(self, run: Run, part: Part) -> Steps:
        for some in request_parts(part.done):
            reply = yield Replay(some, HOUSEKEEPING + self.limits.timeout)
            if reply.status != wire.OK:
                self._diverged()
            run.spend(reply)
            run.retrace(wire.decode_output(reply.output), part.refused, settled_calls(some))
            for request in some:
                run.record(request)

    # ── the trail ────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self) -> None:
        """From now on, keep a trail of what happens: what the session is now is stored."""
        run = self.run
        self.trail = Trail() if run is None else Trail(run.number, len(run.owed))
        if run is not None:
            run.trail = self.trail

    def take_trail(self, waits: float | None = None) -> list[TrailRecord]:
        """What a store does not have yet; nothing if there is nothing. `waits`: since when the run under way is paused."""
        trail = self.trail
        if trail is None or not (trail or waits is not None):
            return []
        if self.run is not None:
            trail.reached(self.run)
            if waits is not None:
                trail.waits(waits)
        records = trail.take()
        counters = (self.budget, self.runs, self.lost_runs, self.last_call, self.ids_lost)
        return [*records, Totals(*counters, sorted(self.issued), dict(self.discovery.found))]

    def _count_on(self, totals: Totals) -> None:
        self.budget = totals.budget
        self.runs, self.lost_runs = totals.runs, totals.lost_runs
        self.last_call, self.ids_lost, self.issued = totals.last_call, totals.ids_lost, set(totals.issued)
        self.discovery.found = totals.discovered

    @property
    def unknown_calls(self) -> list[OpenCall]:
        """Open calls that were begun by a host that did not live to note their answers."""
        if self.run is None:
            return []
        answered = settled_calls(self.run.owed)
        return [call for call in self.run.open.values() if call.started and not call.handed and call.id not in answered]

    def _restore(self, saved: SavedSession, guest: str) -> Steps:
        self.id, self.budget = saved.session, saved.budget
        self.runs, self.lost_runs = saved.runs, saved.lost_runs
        self.last_call, self.ids_lost, self.issued = saved.last_call, saved.ids_lost, set(saved.issued)
        self.discovery.found = dict(saved.discovered)
        self.counted = set(saved.counted)
        self.sources.restore(saved.sources, saved.runs - (saved.run is not None) - saved.lost_runs)
        self.journal = None
        if saved.journal is not None:
            self.journal = Journal(self.limits.max_journal_bytes, committed(saved.journal))
        if not self.has_images:
            yield from self._restore_history(saved)
            return
        if saved.guest != guest and (saved.base or saved.run is not None):  # without images there is nothing to rebuild
            yield from self._rebuild(saved)
            return
        self._set_rollback(saved.base, saved.tail)
        try:
            if saved.run is None:
                yield from self.revive()
                return
            yield Boot()
            yield Load([*self.base[:1], *saved.run.images])
        except ImageError as error:
            raise JournalError(f"the dump holds a malformed image: {error}") from error
        self.live = True
        run = self.run = Run.restored(saved.run, self.limits)
        if saved.journal is not None:
            run.before = [
                request for part, ended in recorded_runs(saved.journal) if not ended for request in part.requests
            ]

    def _restore_history(self, saved: SavedSession) -> Steps:
        """Any build of the guest will do: if it does otherwise than the one before, the replay says so."""
        self._set_rollback([], saved.tail)
        yield Boot()
        yield from self._retell(self.tail, saved.run)
        self.live = True
        if saved.run is not None:
            self.run = Run.restored(saved.run, self.limits)

    def _rebuild(self, saved: SavedSession) -> Steps:
        """The image belongs to a guest that is no longer shipped: replay the journal from its beginning."""
        if saved.journal is None:
            raise JournalError(
                "the dump was made by another guest build and holds no journal: dump with journal=True to load across builds"
            )
        self._set_rollback([], [])
        pending: list[Record] = []
        yield Boot()
        for part, ended in recorded_runs(saved.journal):
            if ended:
                yield from self._replay(part)
                self._append_tail(part, 0)
            else:
                pending = [Settled(request) for request in part.requests]
        self.live = True
        if saved.run is not None:
            yield from self._replay_pending(saved.run, pending)
        elif len(self.tail) > 1:
            yield from self.checkpoint()

    def _replay_pending(self, saved: SavedRun, records: list[Record]) -> Steps:
        digest = Digest()
        requests = [record.request for record in records if isinstance(record, Settled)]
        for part in request_parts(requests):
            reply = yield Replay(part, HOUSEKEEPING + self.limits.timeout)
            digest.add(wire.decode_output(reply.output))
        if digest.value != saved.digest:
            self._diverged()
        self.run = Run.restored(saved, self.limits)
        self.run.requests, self.run.before, self.run.images, self.run.begun = requests, [], [], b""

    def branch(self, saved: SavedSession, *, session_id: str, calls: int | None) -> SavedSession:
        """A saved state for a fork: its own id, and a share of what is left of the budget."""
        return msgspec.structs.replace(
            saved, session=session_id, budget=self.budget.split(calls), lost_runs=0, counted=[]
        )

    def reseed(self, seed: int) -> Steps:
        """Start a new random stream in this (forked) session."""
        yield from self.ask_guest(wire.reseed_request(seed))

    def ask_guest(self, request: bytes) -> Steps:
        """A request that changes the guest and is no part of what its code does; kept for rollbacks."""
        yield from self._whole(self._ask_guest(request))
        if self.run is not None:
            self.run.record(request)
        else:
            self._append_tail(TailRun([request], b""), 0)
            if self.journal is not None:
                self.journal.extend([Settled(request)])

    def _ask_guest(self, request: bytes) -> Steps:
        yield from self.revive()
        reply = yield Step(request, HOUSEKEEPING)
        if reply.status != wire.OK:
            self.live = False
            yield Release()
            raise MemoryLimitExceeded("the guest has no memory left for that; nothing was changed")

    def close(self) -> None:
        """Close for good; the driver releases the guest."""
        self.closed = True
        self.live = False
        self.run = None


def request_parts(
    requests: list[bytes], *, size: int = _REPLAY_PART, count: int = _REPLAY_COUNT
) -> Generator[list[bytes], None, None]:
    """Requests in parts that fit into a frame: of so many bytes, and so many requests."""
    part: list[bytes] = []
    held = 0
    for request in requests:
        if part and (held + len(request) > size or len(part) >= count):
            yield part
            part, held = [], 0
        part.append(request)
        held += len(request)
    if part:
        yield part
