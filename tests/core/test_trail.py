"""A trail beside a dump: whenever a host dies, another one comes to the same state, and nothing that was begun is repeated unnoticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gloveport.core.commands import Answer, Await, Awaited, LinkLost
from gloveport.core.followed import FollowedSession
from gloveport.core.saved import decode_saved, encode_saved
from gloveport.core.trail import decode_segment, encode_segment
from gloveport.errors import JournalError, ReplayDivergence
from gloveport.policy import Limits
from gloveport.types import Done, ToolCall

from .test_machine import _programs
from .world import World, make_session, program, value

LIMITS = Limits(max_tool_calls=25, tool_budgets={"b": 10})
_UNKNOWN = b'{"name":"CallOutcomeUnknownError","message":""}'


class HostDied(BaseException):
    """Thrown where a host is killed."""


class Stored:
    """A store with one record, and the hosts that use it one after the other."""

    def __init__(self, *, each_answer: bool = False, tools: dict | None = None) -> None:
        self.made: list[tuple[str, object]] = []
        """The calls that tools really got."""
        self.each_answer = each_answer
        self.segments: list[bytes] = []
        self.die_in: int | None = None
        """After so many more events the host dies: writes count before and after, tools when they begin and end."""
        self.session = self._new_session()
        self._start_host()
        self.session.follow()
        self.put()

    def _new_session(self):
        session = make_session("a", "b", limits=LIMITS, kind=FollowedSession)
        session.each_answer = self.each_answer
        return session

    def _start_host(self) -> None:
        self.world = World({"a": lambda x: self._tool("a", x), "b": lambda x: self._tool("b", x)})
        self.world.persist = self._persist

    def _tool(self, name: str, argument: object) -> object:
        self.event()
        self.made.append((name, argument))
        self.event()
        return argument

    def _persist(self, command) -> None:
        self.event()
        if not command.answers:
            self.append()
        self.event()

    def event(self) -> None:
        if self.die_in is not None:
            self.die_in -= 1
            if self.die_in < 0:
                raise HostDied

    def append(self) -> None:
        records = self.session.take_trail(5.0 if self.paused else None)
        if records:
            self.segments.append(encode_segment(records))

    paused = False

    def put(self) -> None:
        """Write the whole session."""
        self.session.take_trail()
        saved = self.world.drive(self.session.save(release="1", guest="g"))
        if saved.run is not None:
            saved.run.waits = 5.0
        self.blob, self.segments = encode_saved(saved), []

    def use(self, steps):
        """Perform an operation as a host does: what came of it is written at its end."""
        try:
            step = self.world.drive(steps)
            self.event()
            self.paused = isinstance(step, ToolCall)
            self.append()
            self.paused = False
            self.event()
            return step
        except HostDied:
            self.wake()
            return None

    def wake(self) -> None:
        """Another host takes over."""
        self.die_in, self.paused = None, False
        self.session = self._new_session()
        self._start_host()
        trail = [record for segment in self.segments for record in decode_segment(segment)]
        self.waits = self.world.drive(self.session.restore(decode_saved(self.blob), guest="g", trail=trail))
        self.session.follow()

    def recover(self):
        """Go on with what the dead host left."""
        answers = [Answer(call.id, False, _UNKNOWN) for call in self.session.unknown_calls]
        return self.use(self.session.recover(answers))


def state_of(session):
    run = session.run
    return (
        session.budget,
        (session.runs, session.lost_runs, session.last_call, session.ids_lost, session.issued),
        session.pending,
        run
        and (
            run.number,
            run.source,
            run.ask,
            run.digest.value,
            run.charged,
            list(run.open),
            run.output.state(),
            run.paused,
        ),
    )


class TrailMachine(RuleBasedStateMachine):
    each_answer = False

    def __init__(self) -> None:
        super().__init__()
        self.stored = Stored(each_answer=self.each_answer)
        self.spent = 0

    @property
    def session(self):
        return self.stored.session

    @precondition(lambda self: self.session.run is None)
    @rule(source=_programs, die_in=st.one_of(st.none(), st.integers(0, 12)))
    def run(self, source: str, die_in: int | None) -> None:
        self.stored.die_in = die_in
        self.stored.use(self.session.execute(source))
        self.stored.die_in = None

    @precondition(lambda self: self.session.run is None)
    @rule(
        source=_programs,
        ask=st.sampled_from([None, frozenset("a"), frozenset("ab")]),
        die_in=st.one_of(st.none(), st.integers(0, 8)),
    )
    def start(self, source: str, ask: frozenset[str] | None, die_in: int | None) -> None:
        self.stored.die_in = die_in
        self.stored.use(self.session.start(source, ask))
        self.stored.die_in = None

    @precondition(lambda self: self.session.pending is not None and not self.session.unknown_calls)
    @rule(answer=st.integers(0, 9), die_in=st.one_of(st.none(), st.integers(0, 8)))
    def resume(self, answer: int, die_in: int | None) -> None:
        step = self.session.pending
        self.stored.die_in = die_in
        self.stored.use(self.session.resume(step, value(step.call_id, answer), 0.25))
        self.stored.die_in = None

    @precondition(lambda self: self.session.run is not None)
    @rule()
    def recover(self) -> None:
        self.stored.recover()

    @precondition(lambda self: self.session.run is not None)
    @rule()
    def roll_back(self) -> None:
        self.stored.use(self.session.roll_back())

    @precondition(lambda self: self.session.pending is not None)
    @rule()
    def expire(self) -> None:
        self.session.expire()
        self.stored.world.guest = None
        self.stored.append()

    @rule()
    def suspend(self) -> None:
        if self.stored.world.fail_next is None:
            self.stored.world.drive(self.session.suspend())

    @rule()
    def kill_worker(self) -> None:
        if self.session.live:
            self.stored.world.fail_next = LinkLost("died", "killed")

    @precondition(lambda self: self.stored.world.fail_next is None)
    @rule()
    def write_whole(self) -> None:
        self.stored.put()

    @precondition(lambda self: self.stored.world.fail_next is None)
    @rule()
    def wake_elsewhere(self) -> None:
        before = state_of(self.session)
        self.stored.wake()
        assert state_of(self.session) == before

    @invariant()
    def spent_budget_is_never_regained(self) -> None:
        budget = self.session.budget
        assert self.spent <= budget.made <= 25
        assert len(self.stored.made) <= budget.made, "a tool got a call that nobody was charged for"
        assert sum(budget.tool_made.values()) == budget.made
        self.spent = budget.made


class TrailOfAnswersMachine(TrailMachine):
    each_answer = True


TestTrail = TrailMachine.TestCase
TestTrail.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestTrailOfAnswers = TrailOfAnswersMachine.TestCase
TestTrailOfAnswers.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


PROGRAM = program(["call", "a", 1], ["call", "a", 2], ["all", ["a", "b"]], ["call", "a", 4], ["return", "last"])


@pytest.mark.parametrize("each_answer", [False, True])
def test_wherever_a_host_dies_every_call_is_made_once_or_reported(each_answer):
    """Every point of a run in turn."""
    reported = 0
    for die_in in range(60):
        stored = Stored(each_answer=each_answer)
        stored.die_in = die_in
        outcome = stored.use(stored.session.execute(PROGRAM))
        died = outcome is None
        unknown = [call.id for call in stored.session.unknown_calls]
        if stored.session.run is not None:
            outcome = stored.recover()
        elif died and not stored.made:
            outcome = stored.use(stored.session.execute(PROGRAM))
        assert isinstance(outcome, Done) or outcome is None
        reported += len(unknown)
        # 5 calls; one that is unknown was made once or not at all, and every other one exactly once
        assert 5 - len(unknown) <= len(stored.made) <= 5, die_in
        assert stored.session.budget.made == 5
        if not died:
            break
    else:
        pytest.fail("no host lived long enough")
    assert reported > 0


def test_without_the_note_before_a_call_it_would_be_repeated():
    """The control: what the note is for."""
    stored = Stored()
    stored.world.persist = lambda command: None
    stored.die_in = 1  # the tool began; nothing was noted
    assert stored.use(stored.session.execute(PROGRAM)) is None
    assert (stored.session.unknown_calls, stored.session.budget.made, len(stored.made)) == ([], 0, 1)


def test_with_each_answer_written_fewer_outcomes_are_unknown():
    counts = []
    for each_answer in (False, True):
        unknown = 0
        for die_in in range(40):
            stored = Stored(each_answer=each_answer)
            stored.die_in = die_in
            if stored.use(stored.session.execute(PROGRAM)) is not None:
                break
            unknown += len(stored.session.unknown_calls)
        counts.append(unknown)
    assert counts[1] < counts[0]


def test_a_run_that_was_rolled_back_is_not_done_again():
    stored = Stored()
    stored.use(stored.session.execute(program(["call", "a", 1], ["spin"])))
    stored.use(stored.session.execute(program(["set", "x", 1], ["return", "x"])))
    boots = stored.session.lost_runs
    stored.wake()
    assert (stored.session.lost_runs, boots, stored.session.budget.made, stored.session.run) == (1, 1, 1, None)


def test_a_trail_that_does_not_fit_its_dump_is_refused():
    stored = Stored()
    stored.use(stored.session.start(program(["call", "a", 1], ["call", "a", 2])))
    stored.use(stored.session.resume(stored.session.pending, value(1, 5), 0.1))
    stored.wake()
    whole, stored.segments = stored.segments, stored.segments[1:]
    with pytest.raises(JournalError, match="did not begin"):
        stored.wake()
    records = decode_segment(whole[-1])
    changed = [msgspec.structs.replace(r, digest=b"x" * 32) if hasattr(r, "digest") else r for r in records]
    stored.segments = [*whole[:-1], encode_segment(changed)]
    with pytest.raises(ReplayDivergence):
        stored.wake()


@pytest.mark.parametrize("data", [b"", b"\x91\x91\xa1Z", b"\x91\x92\xa1A\x01", b"\xc1"])
def test_a_malformed_segment_is_refused(data):
    with pytest.raises(JournalError, match="malformed"):
        decode_segment(data)


def test_a_call_under_way_when_another_was_fatal_is_reported_and_not_made_again():
    """On this host and on the next one."""
    for elsewhere in (False, True):
        stored = Stored()
        stored.session.fatal_pauses = True
        answer = stored.world.answer

        def one_answer(command, perform=stored.world.perform, stored=stored):
            if isinstance(command, Await) and any(call.name == "b" for call in stored.world.launched):
                return Awaited(0.01, [Answer(2, False, b"", fatal=SystemExit())])  # `a` still works
            return perform(command)

        stored.world.perform = one_answer
        with pytest.raises(SystemExit):
            stored.use(stored.session.execute(program(["all", ["a", "b"]], ["call", "a", 3], ["return", "last"])))
        assert stored.made == []
        stored.world.perform, stored.world.answer = type(stored.world).perform.__get__(stored.world), answer
        stored.paused = True
        stored.append()
        if elsewhere:
            stored.wake()
        session = stored.session
        first = session.pending
        step = stored.use(session.resume(first, value(first.call_id, 0), 0.0))
        assert {(first.name, first.call_id), (step.name, step.call_id)} == {("a", 1), ("b", 2)}
        assert step.unknown
        assert (stored.made, [call.id for call in session.unknown_calls]) == ([], [step.call_id])
        assert stored.use(session.resume(step, value(step.call_id, 0), 0.0)) == Done(3)
        assert stored.made == [("a", 3)]
