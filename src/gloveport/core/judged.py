"""Which calls are made: budgets, the policy's rulings, and what a log knows of calls that were made before.

Without a policy, and without a log that knows something, a call is charged as it comes in. With one it is *undecided* first: neither
charged nor in line. A policy that takes its time counts as a tool at work does: for `max_pause`, for the guest's clock, and as one of
the calls under way; it never counts as the guest's computing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

from ..calls import CallInfo, LoggedCall
from ..errors import GloveportError, PolicyError, RunDenied, RuntimeTimeout
from ..types import ToolCall
from .commands import Answer, Await, Awaited, Judge, Launch, Note, OpenCall, Persist, Ruling
from .discovery import Refusal
from .durable import Steps
from .observed import ObservedSession
from .run import Run

__all__ = ("Abandoned", "JudgedSession")

_MAX_DENIED: Final = 1000
"""Denied calls of a run, after which it is ended: they cost the guest next to nothing, and the host a policy's time."""


class Abandoned(Exception):
    """A run is over on the host's side; carries the error to report."""

    def __init__(self, error: GloveportError) -> None:
        self.error = error


class JudgedSession(ObservedSession):
    """A session that decides about its calls."""

    window: int
    has_policy = False
    """Whether a policy decides about each call."""
    logs_calls = False
    """Whether a log is told of each call."""
    can_find_out = False
    """Whether someone finds out what became of a call whose outcome is unknown, instead of the tool."""
    policy_error: PolicyError | None = None
    """Why the policy failed the last time it did."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.known: dict[int, LoggedCall] = {}
        """Open calls whose answers a log knows, by the id that people see."""

    def take_over(self, run: Run, *, can_ask: bool = True) -> None:
        """Be the one that goes on with this run. Whoever resumes a run can be asked."""
        run.judged = self.has_policy or bool(self.logged)
        run.can_ask = can_ask

    def call_info(self, call: OpenCall) -> CallInfo:
        """The call as tools and logs know it."""
        number = 0 if self.run is None else self.run.number
        name = self.tool(call.name).name
        return CallInfo(name, call.id + self.ids_lost, self.id, number, call.args, call.flags)

    # ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def charge(self, js_name: str) -> Refusal | None:
        """Charge a call that comes in, or say why it is refused. One that has to be decided about is charged by the decision."""
        run = self.run
        if run is not None and not run.judged and self.limits.max_host_calls is None:  # what most calls are
            text = self.budget.charge(self.tool(js_name).name, run.charged.get(js_name, 0))
            return None if text is None else Refusal("ToolBudgetError", text)
        judged = run is not None and run.judged
        over = self._over(js_name, paid=judged and bool(self.counted))
        if over is None and not judged:
            self.budget.count(self.tool(js_name).name)
        return over

    def _over(self, js_name: str, *, paid: bool = False) -> Refusal | None:
        charged: dict[str, int] = {} if self.run is None else self.run.charged
        most = self.limits.max_host_calls
        if most is not None and sum(charged.values()) >= most:
            return Refusal("ToolBudgetError", f"no tool call is left in this run: `max_host_calls` allows {most}")
        text = None if paid else self.budget.refusal(self.tool(js_name).name, charged.get(js_name, 0))
        return None if text is None else Refusal("ToolBudgetError", text)

    def _accept(self, run: Run, call: OpenCall, *, held: bool = False, reason: str | None = None) -> None:
        key = self.call_info(call).idempotency_key if self.counted else ""
        paid = key in self.counted
        over = self._over(call.name, paid=paid)
        if over is not None:
            self._reject(run, call, over)
            return
        if paid:
            self.counted.discard(key)
        else:
            self.budget.count(self.tool(call.name).name)
        run.accept(call)
        if held:
            call.held, call.reason = True, reason
            if self.trail is not None:
                self.trail.held(call.id, reason)

    def _reject(self, run: Run, call: OpenCall, refusal: Refusal) -> None:
        run.reject(call, refusal)
        self.tell_refused(run, call)

    def remaining_by_tool(self) -> dict[str, int]:
        """Calls that are left of tools that have a budget of their own, by the name they were given."""
        run_calls: dict[str, int] = {}
        for js_name, count in ({} if self.run is None else self.run.charged).items():
            run_calls[self.tool(js_name).name] = count
        names = dict.fromkeys((*self.budget.tool_limits, *self.budget.run_limits))
        lefts = {name: self.budget.left_of(name, run_calls.get(name, 0)) for name in names}
        return {name: left for name, left in lefts.items() if left is not None}

    # ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────

    def judge(self, run: Run) -> Steps:
        """Have undecided calls decided about, or begun to be. → seconds that it took"""
        took = 0.0
        while run.undecided and run.in_flight < self.window:
            call = run.undecided.popleft()
            if self._recall(run, call):
                continue
            over = self._over(call.name)
            if over is not None:
                self._reject(run, call, over)
            elif not self.has_policy:
                self._accept(run, call)
            else:
                took += yield from self._ask_policy(run, call)
        return took

    def _ask_policy(self, run: Run, call: OpenCall) -> Steps:
        left = self.budget.left_of(self.tool(call.name).name, run.charged.get(call.name, 0))
        if self.limits.max_host_calls is not None:
            here = self.limits.max_host_calls - sum(run.charged.values())
            left = here if left is None else min(left, here)
        got: tuple[Ruling | None, float] = yield Judge(call, self.call_info(call), self.budget.made, left)
        ruling, took = got
        run.paused += took
        if ruling is None:
            run.asked(call)
        else:
            self._rule(run, call, ruling)
        if run.pause_left <= 0:
            self._over_pause()
        return took

    def judge_all(self, run: Run) -> Steps:
        """Have every undecided call decided about, where nothing else goes on meanwhile."""
        yield from self.judge(run)
        while run.in_flight:
            got: Awaited = yield Await(max(0.0, run.pause_left))
            run.paused += got.elapsed
            self.take_rulings(run, got.answers)
            if run.in_flight and run.pause_left <= 0:
                self._over_pause()
            yield from self.judge(run)

    def take_rulings(self, run: Run, answers: Iterable[Answer]) -> list[Answer]:
        """Take in what the policy decided after a while; gives the answers that are tools'."""
        rest: list[Answer] = []
        for answer in answers:
            if answer.ruling is None:
                rest.append(answer)
            elif (call := run.open.get(answer.call_id)) is not None:
                run.decided(call)
                self._rule(run, call, answer.ruling)
        return rest

    def _rule(self, run: Run, call: OpenCall, ruling: Ruling) -> None:
        if isinstance(ruling.error, PolicyError):
            self.policy_error = ruling.error
            self.tell_policy_failed(run, call, ruling.error)
        if ruling.kind == "allow":
            self._accept(run, call)
        elif ruling.kind == "ask" and run.can_ask:
            self._accept(run, call, held=True, reason=ruling.reason)
        elif ruling.kind == "ask":
            why = f": {ruling.reason}" if ruling.reason else ""
            text = f"`{self.tool(call.name).name}` needs an approval, and nobody can be asked in this run{why}"
            self._deny(run, call, Refusal("ToolDeniedError", text))
        elif ruling.end_run:
            raise Abandoned(RunDenied(f"the policy refused `{self.tool(call.name).name}`: {ruling.reason}"))
        else:
            self._deny(run, call, Refusal(ruling.name, ruling.reason))

    def _deny(self, run: Run, call: OpenCall, refusal: Refusal) -> None:
        run.denied += 1
        if run.denied > _MAX_DENIED:
            raise Abandoned(RunDenied(f"more than {_MAX_DENIED} calls of one run were refused; it was rolled back"))
        self._reject(run, call, refusal)

    def _over_pause(self) -> NoReturn:
        raise Abandoned(RuntimeTimeout(f"the run waited for tools longer than max_pause ({self.limits.max_pause:g} s)"))

    # ── calls that are made ──────────────────────────────────────────────────────────────────────────────────────────────

    def launch(self, run: Run) -> Steps:
        """Have the tools begin whose turn has come. Where someone keeps a record of calls, it is written first."""
        calls: list[OpenCall] = []
        while (call := run.next_call(self.window, self._sequential)) is not None:
            calls.append(call)
        if self.trail is not None and calls:
            for call in calls:
                call.started = True
            self.trail.started([call.id for call in calls])
            yield Persist()  # before any of them runs: it must not happen twice unnoticed
        if self.logs_calls:
            yield from self.note_started(calls)
        for call in calls:
            if not self.known or not self.is_known(call):
                yield Launch(call, self.call_info(call))

    def _sequential(self, js_name: str) -> bool:
        return self.tool(js_name).sequential

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def high_mark(self) -> int:
        """The last call id that this session has used, as people see it."""
        return (self.last_call if self.run is None else self.run.last_call) + self.ids_lost

    @property
    def first_mark(self) -> int:
        """The first call id that a log may know more about than this session."""
        opened = () if self.run is None else self.run.open
        return min((number + self.ids_lost for number in opened), default=self.high_mark + 1)

    def open_call(self, step: ToolCall) -> OpenCall | None:
        """The call that a step is, if it is open."""
        call = None if self.run is None else self.run.open.get(step.call_id - self.ids_lost)
        return call if call is not None and self.tool(call.name).name == step.name else None

    def info_of(self, step: ToolCall) -> CallInfo:
        """What a step is, open or not."""
        call = self.open_call(step)
        if call is not None:
            return self.call_info(call)
        number = 0 if self.run is None else self.run.number
        return CallInfo(
            step.name, step.call_id, self.id, number, step.idempotency_key or repr(step.args).encode("utf-8", "replace")
        )

    def take_log(self, calls: Iterable[LoggedCall]) -> None:
        """Take in what a log knows and this session, which was saved before, does not. What was made stays charged."""
        mark = self.high_mark
        waiting = {} if self.run is None else {self.call_info(c).idempotency_key: c for c in self.run.open.values()}
        for logged in calls:
            call = waiting.get(logged.idempotency_key)
            if call is not None:
                call.unknown = not _answered(logged)
                if not call.unknown:
                    self.known[logged.call_id] = logged
            elif logged.call_id > mark:
                self.logged[logged.idempotency_key] = logged
                if logged.idempotency_key not in self.counted:
                    self.counted.add(logged.idempotency_key)
                    self.budget.count(logged.name)
        self.counted &= set(self.logged)

    @property
    def unmade(self) -> list[LoggedCall]:
        """Calls whose outcome the log does not know, and that the session has not come to (again)."""
        return [logged for logged in self.logged.values() if not _answered(logged)]

    def _recall(self, run: Run, call: OpenCall) -> bool:
        """Whether this is a call that was made before the process died. It is not made again."""
        info = self.call_info(call) if self.logged else None
        logged = None if info is None else self.logged.get(info.idempotency_key)
        if info is None or logged is None:
            return False
        if not _answered(logged) and not self.can_find_out and not run.can_ask:
            text = f"this call of `{info.name}` was begun before; it may have happened or not, and was not repeated"
            self._reject(run, call, Refusal("CallOutcomeUnknownError", text))
            return True
        del self.logged[info.idempotency_key]
        call.unknown = not _answered(logged)
        self._accept(run, call, held=call.unknown and not self.can_find_out)
        if not call.unknown:
            self.known[info.call_id] = logged
        return True

    def known_answers(self, run: Run) -> list[Answer]:
        """Answers that the log knows for calls whose turn has come."""
        handed = [call.id for call in run.open.values() if call.handed]
        logged = [(number, self.known.get(number + self.ids_lost)) for number in handed]
        return [Answer(number, bool(known.ok), known.answer or b"") for number, known in logged if known is not None]

    def is_known(self, call: OpenCall) -> bool:
        """Whether the log knows its answer."""
        return call.id + self.ids_lost in self.known

    def note_started(self, calls: Iterable[OpenCall]) -> Steps:
        """Have it written that these tools are about to run."""
        begun = [self.call_info(call) for call in calls if not (call.unknown or self.is_known(call))]
        if begun:
            yield Note(started=begun)

    def note_answered(self, run: Run, answers: Iterable[Answer]) -> Steps:
        """Have it written what tools answered, before the guest knows."""
        ended: list[tuple[CallInfo, bool, bytes]] = []
        for answer in answers:
            call = run.open.get(answer.call_id)
            if call is None or answer.pause or answer.fatal is not None:
                continue
            if self.known.pop(call.id + self.ids_lost, None) is None and (call.handed or call.unknown):
                ended.append((self.call_info(call), answer.ok, answer.payload))
        if ended:
            yield Note(answered=ended)


def _answered(logged: LoggedCall) -> bool:
    return logged.ok is not None and logged.answer is not None
