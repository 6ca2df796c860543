"""Properties of the core under any sequence of events."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gloveport.core.commands import LinkLost
from gloveport.core.saved import decode_saved, encode_saved
from gloveport.policy import Limits
from gloveport.types import Done, Failed, ToolCall

from .world import World, make_session, program, value

LIMIT = 25
_steps = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("xy"), st.integers(0, 99)),
    st.tuples(st.just("add"), st.sampled_from("xy"), st.integers(0, 9)),
    st.tuples(st.just("call"), st.sampled_from("ab"), st.integers(0, 9)),
    st.tuples(st.just("all"), st.lists(st.sampled_from("ab"), min_size=1, max_size=4)),
    st.tuples(st.just("log"), st.text(max_size=5)),
)
_ends = st.one_of(
    st.tuples(st.just("return"), st.sampled_from(["x", "y", "last"])),
    st.tuples(st.just("throw"), st.sampled_from(["TypeError", "WorkerCrashed"])),
    st.sampled_from([("spin",), ("oom",), ("trap",), ("die",)]),
)
_programs = st.builds(lambda steps, end: program(*steps, end), st.lists(_steps, max_size=6), _ends)


class SessionMachine(RuleBasedStateMachine):
    """Runs, pauses, losses, crashes, saves and reloads in any order, beside a model of what is spent."""

    def __init__(self) -> None:
        super().__init__()
        self.session = make_session("a", "b", limits=Limits(max_tool_calls=LIMIT, tool_budgets={"b": 10}))
        self.world = World({"a": lambda x: x, "b": lambda x: x})
        self.spent = 0
        self.lost = 0

    def observe(self, step: object) -> None:
        assert isinstance(step, (Done, Failed, ToolCall))
        assert isinstance(step, ToolCall) == (self.session.pending is not None)

    @precondition(lambda self: self.session.pending is None)
    @rule(source=_programs)
    def run(self, source: str) -> None:
        self.observe(self.world.drive(self.session.execute(source)))

    @precondition(lambda self: self.session.pending is None)
    @rule(source=_programs)
    def start(self, source: str) -> None:
        self.observe(self.world.drive(self.session.start(source)))

    @precondition(lambda self: self.session.pending is not None)
    @rule(answer=st.integers(0, 9))
    def resume(self, answer: int) -> None:
        step = self.session.pending
        self.observe(self.world.drive(self.session.resume(step, value(step.call_id, answer), 0.1)))

    @precondition(lambda self: self.session.pending is not None)
    @rule()
    def expire(self) -> None:
        self.session.expire()
        self.world.guest = None

    @rule()
    def kill_worker(self) -> None:
        if self.session.live:
            self.world.fail_next = LinkLost("died", "killed")

    @precondition(lambda self: self.world.fail_next is None)
    @rule()
    def reload(self) -> None:
        before = self.world.drive(self.session.save(release="1", guest="g"))
        other = make_session("a", "b", limits=Limits(max_tool_calls=LIMIT, tool_budgets={"b": 10}))
        world = World(self.world.tools)
        world.drive(other.restore(decode_saved(encode_saved(before)), guest="g"))
        assert other.pending == self.session.pending
        assert other.budget == self.session.budget
        if self.session.pending is not None:  # resume(load(dump)) is resume, whatever the answer
            step = self.session.pending
            twin, twin_world = (
                make_session("a", "b", limits=Limits(max_tool_calls=LIMIT, tool_budgets={"b": 10})),
                World({}),
            )
            twin_world.drive(twin.restore(decode_saved(encode_saved(before)), guest="g"))
            one = world.drive(other.resume(step, value(step.call_id, 3), 0.1))
            two = twin_world.drive(twin.resume(step, value(step.call_id, 3), 0.1))
            here = self.world.drive(self.session.resume(step, value(step.call_id, 3), 0.1))
            assert repr(one) == repr(two) == repr(here)
            assert twin.budget == other.budget == self.session.budget
        self.session, self.world = other, world

    @invariant()
    def spent_budget_is_never_regained(self) -> None:
        budget = self.session.budget
        assert self.spent <= budget.made <= LIMIT
        assert budget.tool_made.get("b", 0) <= 10
        assert sum(budget.tool_made.values()) == budget.made
        self.spent = budget.made

    @invariant()
    def lost_runs_are_never_forgotten(self) -> None:
        assert self.session.lost_runs >= self.lost
        self.lost = self.session.lost_runs


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
