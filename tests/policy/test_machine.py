"""Properties of the core with a policy and a log, under any sequence of events."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gloveport.calls import LoggedCall
from gloveport.core.commands import Answer, Await, Awaited, Judge, LinkLost, Note, Ruling
from gloveport.core.saved import decode_saved, encode_saved
from gloveport.errors import NotPausedError
from gloveport.policy import Limits
from gloveport.types import ToolCall

from ..core import test_trail as trails
from ..core.test_machine import _programs
from ..core.world import World, make_session, program, value

LIMIT, OF_B, OF_A_IN_A_RUN = 25, 10, 2
LIMITS = Limits(max_tool_calls=LIMIT, tool_budgets={"b": OF_B}, run_budgets={"a": OF_A_IN_A_RUN})
RULINGS = {
    "allow": Ruling("allow"),
    "deny": Ruling("deny", "no"),
    "ask": Ruling("ask", "sure?"),
    "end": Ruling("deny", "", True),
}
_rulings = st.tuples(st.sampled_from(list(RULINGS)), st.booleans())


class ProcessDied(BaseException):
    """Thrown where the process ends."""


class JudgingWorld(World):
    """A world with a policy that decides at once or after a while, and a log that outlives it."""

    def __init__(self, tools, log=None):
        super().__init__(tools)
        self.log: dict[str, LoggedCall] = {} if log is None else log
        self.policy = {"a": ("allow", False), "b": ("allow", False)}
        self.permitted: set[str] = set()
        """Keys of calls that the policy allowed."""
        self.made: list[str] = []
        """Keys of calls that tools got."""
        self.thinking: list[Judge] = []
        self.die_in: int | None = None

    def event(self):
        if self.die_in is not None:
            self.die_in -= 1
            if self.die_in < 0:
                raise ProcessDied

    def perform(self, command):
        if isinstance(command, Judge):
            kind, slow = self.policy[command.call.name]
            assert command.call.undecided
            assert command.calls_remaining is None or command.calls_remaining > 0
            if slow:
                self.thinking.append(command)
                return None, 0.01
            return self.rule(command), 0.01
        if isinstance(command, Note):
            return self.note(command)
        if isinstance(command, Await) and self.thinking:
            judged = [Answer(c.call.id, True, b"", ruling=self.rule(c)) for c in self.thinking]
            self.thinking.clear()
            return Awaited(0.01, judged)  # tools that were launched answer with the next wait
        if type(command).__name__ in ("Cancel", "Release"):
            self.thinking.clear()
        if type(command).__name__ == "Launch":
            self.event()
            self.made.append(command.info.idempotency_key)
            self.event()
        return super().perform(command)

    def rule(self, command):
        kind, _ = self.policy[command.call.name]
        if kind == "allow":
            self.permitted.add(command.info.idempotency_key)
        return RULINGS[kind]

    def note(self, command):
        self.event()
        for info in command.started:
            self.log[info.idempotency_key] = LoggedCall(info.idempotency_key, info.call_id, info.name)
        for info, ok, answer in command.answered:
            self.log[info.idempotency_key] = LoggedCall(info.idempotency_key, info.call_id, info.name, ok, answer)
        self.event()


class PolicyMachine(RuleBasedStateMachine):
    """Runs, pauses, rulings, rollbacks, forks, crashes and loads of older dumps in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[str, LoggedCall] = {}
        self.session = self.new()
        self.world = JudgingWorld({"a": lambda x: x, "b": lambda x: x}, self.log)
        self.made: list[str] = []
        self.spent = 0
        self.share = LIMIT
        self.dump()

    def new(self):
        session = make_session("a", "b", limits=LIMITS)
        session.has_policy = session.logs_calls = True
        return session

    def restored(self, saved, log):
        session, world = self.new(), JudgingWorld(self.world.tools, log)
        world.policy, world.permitted, world.made = dict(self.world.policy), self.world.permitted, self.world.made
        world.drive(session.restore(decode_saved(saved), guest="g"))
        session.take_log([call for call in log.values() if call.idempotency_key.startswith(f"{session.id}-")])
        return session, world

    def use(self, steps):
        try:
            step = self.world.drive(steps)
        except ProcessDied:
            self.die()
            return
        finally:
            self.world.die_in = None
        assert isinstance(step, ToolCall) == (self.session.pending is not None)
        for call in self.session.run.open.values() if self.session.run else ():
            assert not call.undecided

    def die(self):
        """The process ends; the last dump is loaded by another one, which has the log."""
        self.session, self.world = self.restored(self.blob, self.log)

    @rule(tool=st.sampled_from("ab"), ruling=_rulings)
    def set_policy(self, tool, ruling):
        self.world.policy[tool] = ruling

    @precondition(lambda self: self.session.run is None)
    @rule(source=_programs, die_in=st.one_of(st.none(), st.integers(0, 12)))
    def run(self, source, die_in):
        self.world.die_in = die_in
        self.use(self.session.execute(source))

    @precondition(lambda self: self.session.run is None)
    @rule(
        source=_programs,
        ask=st.sampled_from([None, frozenset(), frozenset("a")]),
        die_in=st.one_of(st.none(), st.integers(0, 8)),
    )
    def start(self, source, ask, die_in):
        self.world.die_in = die_in
        self.use(self.session.start(source, ask))

    @precondition(lambda self: self.session.pending is not None)
    @rule(answer=st.integers(0, 9), die_in=st.one_of(st.none(), st.integers(0, 8)))
    def resume(self, answer, die_in):
        self.world.die_in = die_in
        step = self.session.pending
        self.use(self.session.resume(step, value(step.call_id, answer), 0.1))

    @precondition(lambda self: self.session.pending is not None)
    @rule()
    def expire(self):
        self.session.expire()
        self.world.guest = None

    @rule()
    def kill_worker(self):
        if self.session.live:
            self.world.fail_next = LinkLost("died", "killed")

    @precondition(lambda self: self.world.fail_next is None)
    @rule()
    def dump(self):
        self.blob = encode_saved(self.world.drive(self.session.save(release="1", guest="g")))
        self.spent_at_dump = self.session.budget.made

    @precondition(lambda self: self.world.fail_next is None)
    @rule()
    def reload(self):
        before = (self.session.pending, self.session.budget, self.session.pending and self.session.pending.reason)
        self.dump()
        self.die()
        assert (
            self.session.pending,
            self.session.budget,
            self.session.pending and self.session.pending.reason,
        ) == before

    @precondition(lambda self: self.world.fail_next is None)
    @rule()
    def fork(self):
        """Half of what is left goes to the branch, which goes on in the place of this one."""
        left = self.session.budget.remaining
        saved = self.world.drive(self.session.save(release="1", guest="g"))
        branch = self.session.branch(saved, session_id=f"{self.session.id}f", calls=None)
        assert self.session.budget.remaining + branch.budget.remaining == left
        self.session, self.world = self.restored(encode_saved(branch), self.log)
        self.share = self.session.budget.limit
        self.spent = 0
        self.dump()

    @invariant()
    def spent_budget_is_never_regained(self):
        budget = self.session.budget
        mine = [key for key in self.log if key.startswith(f"{self.session.id}-")]
        assert budget.made <= self.share
        assert sum(budget.tool_made.values()) == budget.made
        assert len(mine) <= budget.made, "a call that was begun is not charged"
        assert budget.tool_made.get("b", 0) <= budget.tool_limits["b"]
        run = self.session.run
        if run is not None:
            assert run.charged.get("a", 0) <= OF_A_IN_A_RUN
            assert all(count >= 0 for count in run.charged.values())

    @invariant()
    def only_what_was_allowed_is_made_and_nothing_twice(self):
        assert set(self.world.made) <= self.world.permitted
        assert len(self.world.made) == len(set(self.world.made))


TestPolicyMachine = PolicyMachine.TestCase
TestPolicyMachine.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)


# ── with a store ─────────────────────────────────────────────────────────────────────────────────────────────────────


class StoredWithPolicy(trails.Stored):
    """Hosts that die, each with a policy that allows `a` after a while and asks for `b`."""

    def _new_session(self):
        session = super()._new_session()
        session.has_policy = True
        return session

    def _start_host(self):
        super()._start_host()
        plain = self.world
        self.world = JudgingWorld(plain.tools)
        self.world.persist = plain.persist
        self.world.policy = {"a": ("allow", True), "b": ("ask", False)}


class PolicyTrailMachine(trails.TrailMachine):
    def __init__(self):
        super().__init__()
        self.stored = StoredWithPolicy(each_answer=self.each_answer)

    @rule(tool=st.sampled_from("ab"), ruling=_rulings)
    def set_policy(self, tool, ruling):
        self.stored.world.policy[tool] = ruling

    @precondition(lambda self: self.stored.world.fail_next is None)
    @rule()
    def a_reason_is_kept(self):
        before = self.session.pending and self.session.pending.reason
        self.stored.wake()
        assert (self.session.pending and self.session.pending.reason) == before


TestPolicyTrail = PolicyTrailMachine.TestCase
TestPolicyTrail.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_wherever_a_host_dies_undecided_calls_are_decided_about_by_the_next():
    source = program(["all", ["a", "a"]], ["call", "b", 1], ["all", ["a", "b"]], ["return", "last"])
    deaths = 0
    for die_in in range(60):
        stored = StoredWithPolicy()
        stored.die_in = die_in
        step = stored.use(stored.session.start(source, frozenset()))
        lived = step is not None
        stored.die_in, deaths = None, deaths + (not lived)
        if stored.session.run is None:
            assert not stored.made
            step = stored.use(stored.session.start(source, frozenset()))
        unknown = len(stored.session.unknown_calls)
        if unknown or not isinstance(step, ToolCall):
            step = stored.recover()
        handed = 0
        while isinstance(step, ToolCall):
            assert step.reason == "sure?"
            handed += 1
            step = stored.use(stored.session.resume(step, value(step.call_id, 1), 0.1))
        assert (stored.session.budget.made, handed) == (5, 2), die_in
        assert 3 - unknown <= len(stored.made) <= 3
        if lived:
            break
    else:
        raise AssertionError("no host lived long enough")
    assert deaths > 3


def test_a_dump_from_the_middle_of_a_run_hands_out_nothing_that_is_undecided():
    stored, dumps = StoredWithPolicy(), []
    stored.world.policy = {"a": ("allow", False), "b": ("deny", True)}

    def persist(command):
        if not command.answers and not dumps:
            dumps.append(encode_saved(stored.world.drive(stored.session.save(release="1", guest="g"))))

    stored.world.persist = persist
    stored.use(stored.session.start(program(["all", ["b", "a"]], ["return", "last"]), frozenset()))
    stored.blob, stored.segments = dumps[0], []
    stored.wake()
    session = stored.session
    assert [(call.name, call.undecided, call.started) for call in session.run.open.values()] == [
        ("b", True, False),
        ("a", False, True),
    ]
    assert (session.pending, session.budget.made, [call.name for call in session.unknown_calls]) == (None, 1, ["a"])
    with pytest.raises(NotPausedError):
        session.check_step(ToolCall("b", (None,), 1))
    stored.world.policy = {"a": ("allow", False), "b": ("deny", False)}
    stored.recover()
    assert (session.run, session.budget.made, stored.made) == (None, 1, [("a", None)])


def test_a_call_that_was_held_and_then_begun_is_unknown_after_a_death():
    stored = StoredWithPolicy()
    step = stored.use(stored.session.start(program(["call", "b", 1]), frozenset()))
    stored.wake()
    assert stored.session.unknown_calls == []
    stored.session.begin_call(stored.session.pending)
    stored.paused = True
    stored.append()
    stored.wake()
    assert [call.id for call in stored.session.unknown_calls] == [step.call_id]


def test_calls_that_a_dead_host_left_undecided_are_not_charged():
    stored = StoredWithPolicy()
    stored.world.policy = {"a": ("allow", False), "b": ("allow", True)}
    stored.die_in = 2  # in the tool `a`, which was begun while the policy thought about `b`
    assert stored.use(stored.session.execute(program(["all", ["b", "a"]], ["return", "last"]))) is None
    session = stored.session
    assert [(call.name, call.undecided) for call in session.run.open.values()] == [("b", True), ("a", False)]
    assert (session.run.charged.get("b", 0), session.run.charged["a"], session.budget.made) == (0, 1, 1)
    stored.world.policy = {"a": ("allow", False), "b": ("allow", False)}
    stored.recover()
    assert (session.run, session.budget.made, session.budget.tool_made) == (None, 2, {"a": 1, "b": 1})


def test_a_call_that_its_tool_handed_out_is_known_not_to_have_happened():
    """It was begun, and said that nothing had come of it."""
    stored = StoredWithPolicy()
    stored.world.policy = {"a": ("allow", False), "b": ("allow", False)}
    stored.world.answer = lambda call: Answer(call.id, False, b"", pause=True)
    step = stored.use(stored.session.start(program(["call", "a", 1]), frozenset()))
    assert isinstance(step, ToolCall)
    stored.wake()
    assert (stored.session.unknown_calls, stored.session.pending) == ([], step)


def test_calls_begin_in_the_order_they_were_made_also_if_the_policy_took_its_time():
    session = make_session("a", "b", limits=Limits(max_inflight=2))
    session.has_policy = True
    world = JudgingWorld({"a": lambda x: x, "b": lambda x: x})
    world.policy = {"a": ("allow", True), "b": ("allow", False)}
    world.drive(session.execute(program(["all", ["a", "b", "b"]])))
    assert [key.split("-")[1] for key in world.made] == ["2", "1", "3"]
