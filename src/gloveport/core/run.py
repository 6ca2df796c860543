"""One run of a session: the calls that are open, the time it used, what it printed, and how it ended."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Container, Iterable

import msgspec

from ..errors import ProtocolViolation
from ..policy import Limits
from ..wire.messages import Call, DoneMessage, FailMessage, Idle, Log, Message, Reply, Tail
from .commands import Compiled, OpenCall
from .discovery import Refusal
from .journal import Digest, Ran, Record, Settled
from .outcome import Output, stream_name
from .saved import SavedRun
from .trail import Trail

__all__ = ("Run",)

_MAX_KEPT_REQUESTS = 8 * 1024 * 1024
_MAX_UNCLAIMED = 10.0


class Run:
    """The state of a run from its first step to its outcome."""

    def __init__(self, number: int, source: str, limits: Limits, last_call: int, *, has_images: bool = True) -> None:
        self.number = number
        self.has_images = has_images
        """Whether the heap can be had as an image; if not, everything that was asked is kept."""
        self.source = source
        self.limits = limits
        self.last_call = last_call
        self.open: dict[int, OpenCall] = {}
        """Every call that has no answer yet, in the order they were made."""
        self.waiting: deque[OpenCall] = deque()
        """Those of them that nobody works on."""
        self.refused: list[tuple[int, Refusal]] = []
        """Calls that are not made and have to be told so, by id."""
        self.output = Output(limits.max_output_bytes)
        self.digest = Digest()
        self.used_ns = 0
        self.unclaimed_ns = 0
        """What steps took by the host's clock beyond that."""
        self.paused = 0.0
        self.clock_reads = 0
        self.charged: dict[str, int] = {}
        self.requests: list[bytes] | None = []
        """What was asked of the guest, for rollback and journal; `None` when it is too much to keep."""
        self.images: list[bytes] = []
        """Where it was restored from; `requests` begins after them."""
        self.begun = b""
        """The digest at that moment."""
        self.before: list[bytes] | None = []
        """What was asked before, if it is known: the journal needs it."""
        self.request_bytes = 0
        self.finished: DoneMessage | FailMessage | None = None
        self.idle: Idle | None = None
        self.in_flight = 0
        self.busy: set[str] = set()
        """Tools marked `sequential` that run at this moment."""
        self.compiled: Compiled | None = None
        """What the compiler made, for the places of errors; a restored run does not have it."""
        self.ask: frozenset[str] | None = None
        """Tools whose calls are handed out; `None`: all of them. The real tools answer the others."""
        self.judged = False
        """Whether each call has to be decided about, before it is charged."""
        self.undecided: deque[OpenCall] = deque()
        """Open calls that nobody decided about, and nobody was asked about yet."""
        self.can_ask = True
        """Whether a call can be handed out."""
        self.denied = 0
        self.trail: Trail | None = None
        self.owed: list[bytes] = []
        """Requests with answers that a store was told of and the guest was not, because the host died in between."""

    # ── budget of time ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def time_left(self) -> float:
        """Seconds of guest computing that are left; never quite nothing, so that a last step can be interrupted."""
        return max(0.001, self.limits.timeout - self.used_ns / 1e9)

    @property
    def pause_left(self) -> float:
        """Seconds of waiting that are left."""
        return self.limits.max_pause - self.paused

    def spend(self, reply: Reply) -> None:
        """Account for a step. A worker's word counts only as far as the host's own clock allows."""
        ns = min(reply.ns, reply.wall_ns) if reply.wall_ns else reply.ns
        self.used_ns += ns
        self.unclaimed_ns += max(0, reply.wall_ns - ns)
        self.clock_reads = reply.clock_reads

    @property
    def stalls(self) -> bool:
        """Whether the worker took far longer than it accounts for: sending, waking and a busy machine are not that much."""
        return self.unclaimed_ns / 1e9 > max(_MAX_UNCLAIMED, 2 * self.limits.timeout)

    # ── what the guest says ──────────────────────────────────────────────────────────────────────────────────────────

    def record(self, request: bytes) -> None:
        """Remember what was asked."""
        if self.trail is not None:
            self.trail.asked(self, request)
        if self.requests is None:
            return
        self.request_bytes += len(request)
        if self.has_images and self.request_bytes > _MAX_KEPT_REQUESTS:
            self.requests = None
        else:
            self.requests.append(request)

    def take(
        self,
        messages: list[Message],
        admit: Callable[[str], Refusal | None],
        console: Callable[[str, str], None] | None,
        observe: Callable[[Message, str | None], None] | None = None,
        left: int = 0,
    ) -> None:
        """Take in the messages of a step, with `left` answers still to be given. `admit(tool)` charges a call (unless it is to be
        `judged`), or says why it is refused.

        `observe` is told of each message, with the line that became of a console call; not of calls that are refused.
        """
        self._take_in(messages, admit, console, observe)
        if self.finished is not None and (self.open or self.refused or left):
            raise ProtocolViolation("a guest ended a run with calls open")
        if self.finished is None and self.idle is None:
            raise ProtocolViolation("a guest stopped without saying why")
        if self.finished is None and not (self.open or self.refused or left):
            raise ProtocolViolation("a guest waits for a call that it has not made")

    def retrace(self, messages: list[Message], refused: Container[int], settled: Iterable[int]) -> None:
        """Take in once more what is known to have happened: several steps, calls that were charged, answers that were given."""
        known = Refusal("", "")
        self._take_in(messages, lambda _: known if self.last_call in refused else None, None, None)
        for call_id in settled:
            self.settle(call_id)
            self.refused = [item for item in self.refused if item[0] != call_id]
        self.hand_back()

    def _take_in(
        self,
        messages: list[Message],
        admit: Callable[[str], Refusal | None],
        console: Callable[[str, str], None] | None,
        observe: Callable[[Message, str | None], None] | None,
    ) -> None:
        self.digest.add(messages)
        self.idle = None
        for message in messages:
            line = None
            if isinstance(message, Call):
                self._call(message, admit)
            elif isinstance(message, Log):
                line = self.output.add(message)
                if console is not None and line is not None:
                    console(stream_name(message.s), line)
            elif isinstance(message, Tail):
                self.output.end(message)
            elif isinstance(message, Idle):
                self.idle = message
            elif self.finished is not None:
                raise ProtocolViolation("a guest ended a run twice")
            else:
                self.finished = message
            if observe is not None:
                observe(message, line)

    def _call(self, message: Call, admit: Callable[[str], Refusal | None]) -> None:
        if self.finished is not None or message.id != self.last_call + 1:
            raise ProtocolViolation("a guest made a call out of turn")
        self.last_call = message.id
        refusal = admit(message.n)
        if refusal is not None:
            self.refused.append((message.id, refusal))
            return
        call = OpenCall(message.id, message.n, bytes(message.a), message.f, undecided=self.judged)
        self.open[call.id] = call
        if self.judged:
            self.undecided.append(call)
        else:
            self.charged[message.n] = self.charged.get(message.n, 0) + 1
            self.waiting.append(call)

    # ── calls that are decided about ─────────────────────────────────────────────────────────────────────────────────

    def asked(self, call: OpenCall) -> None:
        """The policy takes its time about a call; it counts as under way."""
        call.handed = True
        self.in_flight += 1

    def decided(self, call: OpenCall) -> None:
        """It gave its decision."""
        if call.handed:
            call.handed = False
            self.in_flight -= 1

    def accept(self, call: OpenCall) -> None:
        """The call was charged and may be made, in its turn."""
        call.undecided = False
        self.charged[call.name] = self.charged.get(call.name, 0) + 1
        self.waiting.append(call)
        if len(self.waiting) > 1 and self.waiting[-2].id > call.id:  # a later call was decided about sooner
            self.waiting = deque(sorted(self.waiting, key=lambda waiting: waiting.id))

    def reject(self, call: OpenCall, refusal: Refusal) -> None:
        """The call is not made."""
        del self.open[call.id]
        self.refused.append((call.id, refusal))

    def leave_undecided(self, calls: Container[int]) -> None:
        """Of the open calls these and no others are not decided about, and so not charged."""
        for call in self.open.values():
            undecided = call.id in calls
            if undecided != call.undecided:
                self.charged[call.name] = self.charged.get(call.name, 0) + (-1 if undecided else 1)
                call.undecided = undecided
        self.hand_back()

    # ── who works on which call ──────────────────────────────────────────────────────────────────────────────────────

    def next_call(self, window: int, sequential: Callable[[str], bool]) -> OpenCall | None:
        """The next call that may start now, in call order; a tool marked sequential runs one at a time."""
        if self.in_flight >= window:
            return None
        for index, call in enumerate(self.waiting):
            if call.held or call.started or (self.ask and call.name in self.ask):
                continue
            one_at_a_time = sequential(call.name)
            if one_at_a_time and call.name in self.busy:
                continue
            del self.waiting[index]
            if one_at_a_time:
                self.busy.add(call.name)
            self.in_flight += 1
            call.handed = True
            return call
        return None

    def settle(self, call_id: int) -> OpenCall | None:
        """Forget a call that gets its answer now."""
        call = self.open.pop(call_id, None)
        if call is not None and call.handed:
            self.in_flight -= 1
            self.busy.discard(call.name)
        return call

    def hold(self, call_id: int) -> None:
        """A launched call that is to be handed out after all."""
        call = self.open.get(call_id)
        if call is not None and call.handed:
            self.in_flight -= 1
            self.busy.discard(call.name)
            call.handed, call.held, call.started = False, True, False
            self.waiting.append(call)

    def hand_back(self) -> None:
        """Nobody works on any call any more; they wait in call order again."""
        self.in_flight = 0
        self.busy.clear()
        for call in self.open.values():
            call.handed = False
        self.waiting = deque(call for call in self.open.values() if not call.undecided)
        self.undecided = deque(call for call in self.open.values() if call.undecided)

    def leave_behind(self, ended: int) -> None:
        """Nobody waits any more for the calls under way. One of them `ended`; the tools of the others may go on to their end, so
        they are not made again unnoticed."""
        for call in self.open.values():
            if call.handed and not call.undecided and call.id != ended:
                call.held = call.unknown = True
        self.hand_back()

    def records(self) -> list[Record]:
        """What was asked so far, for the journal."""
        requests = [*(self.before or []), *(self.requests or [])]
        if not requests:
            return []
        return [Ran(self.number, self.source, requests[0]), *map(Settled, requests[1:])]

    # ── saving ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def save(self, images: list[bytes]) -> SavedRun:
        """As data, with the image of the heap at this moment, or without one with what was asked. Nothing in it changes when the run
        goes on: a fork takes it as it is."""
        return SavedRun(
            self.number,
            self.source,
            images,
            [msgspec.structs.replace(call) for call in self.open.values()],
            self.last_call,
            self.used_ns,
            self.paused,
            dict(self.charged),
            self.digest.value,
            copy.deepcopy(self.output.state()),
            None if self.ask is None else sorted(self.ask),
            list(self.owed),
            None,
            None if self.has_images else list(self.requests or ()),
        )

    @classmethod
    def restored(cls, saved: SavedRun, limits: Limits) -> Run:
        """The reverse of `save`: it goes on from the images, or (without any) from the beginning."""
        run = cls(saved.number, saved.source, limits, saved.last_call, has_images=saved.requests is None)
        run.open = {call.id: call for call in saved.open_calls}
        run.hand_back()
        run.used_ns, run.paused, run.charged = saved.used_ns, saved.paused, saved.charged
        run.digest = Digest(saved.digest)
        run.output = Output.restored(limits.max_output_bytes, saved.output)
        run.ask = None if saved.ask is None else frozenset(saved.ask)
        if saved.requests is not None:
            for request in saved.requests:
                run.record(request)
        else:
            run.images, run.begun, run.before = saved.images, saved.digest, None
        run.owed = list(saved.owed)
        return run
