"""The state machine, played move by move against a fake guest."""

from __future__ import annotations

import pytest

from gloveport.core.commands import LinkLost
from gloveport.core.saved import decode_saved, encode_saved
from gloveport.errors import (
    DeadlockError,
    JournalError,
    MemoryLimitExceeded,
    NotPausedError,
    ReplayDivergence,
    RuntimeTimeout,
    SessionClosedError,
    SessionPausedError,
    StaleStepError,
    WorkerCrashed,
)
from gloveport.policy import Limits
from gloveport.types import Done, Failed, ToolCall

from .world import World, make_session, program, value


def play(session, world, source):
    return world.drive(session.execute(source))


def test_a_run_is_compiled_booted_stepped_and_done():
    session, world = make_session("add"), World({"add": lambda x: x + 1})
    assert play(session, world, program(["call", "add", 41], ["return", "last"])) == Done(42)
    assert world.trace == ["Compile", "Boot", "Replay", "Step", "Launch", "Await", "Step"]


def test_a_source_that_does_not_compile_starts_nothing():
    session, world = make_session(), World({})
    step = play(session, world, "!")
    assert (step.status, step.error_type, step.line, step.column) == ("Failed", "SyntaxError", 1, 2)
    assert world.trace == ["Compile"]


def test_calls_made_together_are_launched_together_and_settled_in_one_message():
    session, world = make_session("t"), World({"t": lambda _: 1})
    play(session, world, program(["all", ["t"] * 5], ["return", "last"]))
    assert world.trace[4:] == ["Launch"] * 5 + ["Await", "Replay"]


def test_the_window_bounds_calls_in_flight():
    session, world = make_session("t", limits=Limits(max_inflight=2)), World({"t": lambda _: 1})
    play(session, world, program(["all", ["t"] * 5], ["return", "last"]))
    assert world.trace[4:].count("Await") == 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [("spin", RuntimeTimeout), ("oom", MemoryLimitExceeded), ("trap", WorkerCrashed), ("die", WorkerCrashed)],
)
def test_a_lost_run_leaves_the_state_before_it_and_its_calls_charged(fault, error):
    session, world = make_session("t", limits=Limits(max_tool_calls=10)), World({"t": lambda _: 1})
    play(session, world, program(["set", "x", 1], ["return", "x"]))
    lost = play(session, world, program(["set", "x", 2], ["call", "t", 0], [fault]))
    assert isinstance(lost.error, error)
    assert (session.lost_runs, session.budget.made) == (1, 1)
    assert play(session, world, program(["return", "x"])) == Done(1)
    assert world.boots == 2


def test_a_javascript_error_is_a_completed_run():
    session, world = make_session(), World({})
    step = play(session, world, program(["set", "x", 5], ["throw", "TypeError"]))
    assert step.error_type == "TypeError"
    assert play(session, world, program(["return", "x"])) == Done(5)
    assert session.lost_runs == 0


def test_a_guest_cannot_claim_a_host_name():
    session, world = make_session(), World({})
    assert play(session, world, program(["throw", "RuntimeTimeout"])).error_type == "Error"
    assert play(session, world, program(["throw", "ToolBudgetError"])).error_type == "Error"


def test_a_pause_hands_out_one_call_at_a_time_in_call_order():
    session, world = make_session("a", "b"), World({})
    step = world.drive(session.start(program(["all", ["a", "b"]], ["return", "last"])))
    assert step == ToolCall("a", (None,), 1)
    step = world.drive(session.resume(step, value(1, "x"), 0.0))
    assert step == ToolCall("b", (None,), 2)
    assert world.drive(session.resume(step, value(2, "y"), 0.0)) == Done("y")


def test_misuse_changes_nothing():
    session, world = make_session("a"), World({})
    with pytest.raises(NotPausedError):
        next(session.resume(ToolCall("a", (), 1), value(1, 1), 0.0))
    step = world.drive(session.start(program(["call", "a", 1], ["return", "last"])))
    with pytest.raises(SessionPausedError, match="paused at `a`"):
        next(session.execute("1"))
    with pytest.raises(StaleStepError):
        next(session.resume(ToolCall("a", (1,), 7), value(7, 1), 0.0))
    with pytest.raises(TypeError):
        next(session.resume("step", value(1, 1), 0.0))
    assert world.drive(session.resume(step, value(1, 3), 0.0)) == Done(3)
    with pytest.raises(NotPausedError):
        next(session.resume(step, value(1, 3), 0.0))
    session.close()
    with pytest.raises(SessionClosedError):
        next(session.execute("1"))


def test_a_pause_over_its_time_rolls_back_and_the_next_resume_says_so():
    session, world = make_session("a", limits=Limits(max_pause=5)), World({})
    step = world.drive(session.start(program(["set", "x", 9], ["call", "a", 1])))
    late = world.drive(session.resume(step, value(1, 1), 6.0))
    assert isinstance(late.error, RuntimeTimeout)
    step = world.drive(session.start(program(["call", "a", 1], ["return", "x"])))
    session.expire()
    assert session.pending is None
    assert isinstance(world.drive(session.resume(step, value(2, 1), 0.0)).error, RuntimeTimeout)
    assert play(session, world, program(["return", "x"])) == Done(None)


def test_budget_refusals_never_surface_and_are_named():
    session, world = make_session("t", limits=Limits(max_tool_calls=1)), World({"t": lambda _: 1})
    step = play(session, world, program(["call", "t", 1], ["call", "t", 2], ["return", "last"]))
    assert step.value == {"error": "ToolBudgetError"}
    assert session.budget.made == 1
    assert play(session, world, program(["throw", "ToolBudgetError"])).error_type == "ToolBudgetError"


def save(session, world, **options):
    saved = world.drive(session.save(release="1", guest="g", **options))
    return decode_saved(encode_saved(saved))


def load(saved, *names, guest="g", limits=None):
    session, world = make_session(*names, limits=limits), World({})
    world.drive(session.restore(saved, guest=guest))
    return session, world


def test_a_paused_session_comes_back_at_the_same_call():
    session, world = make_session("a"), World({})
    play(session, world, program(["set", "x", 1]))
    step = world.drive(session.start(program(["add", "x", 1], ["call", "a", 5], ["return", "x"])))
    copy, other = load(save(session, world), "a")
    assert copy.pending == step
    assert other.drive(copy.resume(step, value(1, 0), 0.0)) == Done(2)
    assert other.trace == ["Boot", "Load", "Step"]  # the end of that run takes no image: the one it came from will do
    assert play(copy, other, program(["spin"])).error_type == "RuntimeTimeout"
    assert play(copy, other, program(["return", "x"])) == Done(2)
    assert other.trace[-4:] == ["Boot", "Load", "Replay", "Step"]


def test_a_run_lost_after_a_load_rolls_back_to_before_the_run():
    session, world = make_session("a"), World({})
    play(session, world, program(["set", "x", 1]))
    step = world.drive(session.start(program(["add", "x", 1], ["call", "a", 5], ["spin"])))
    copy, other = load(save(session, world), "a")
    assert isinstance(other.drive(copy.resume(step, value(1, 0), 0.0)).error, RuntimeTimeout)
    assert play(copy, other, program(["return", "x"])) == Done(1)


def test_another_guest_build_needs_the_journal():
    session, world = make_session("a"), World({"a": lambda x: x})
    play(session, world, program(["set", "x", 1], ["call", "a", 7]))
    step = world.drive(session.start(program(["add", "x", 1], ["call", "a", 5], ["return", "x"])))
    with pytest.raises(JournalError, match="journal=True"):
        load(save(session, world), "a", guest="newer")
    copy, other = load(save(session, world, journal=True), "a", guest="newer")
    assert copy.pending == step
    assert other.drive(copy.resume(step, value(2, 0), 0.0)) == Done(2)
    assert play(copy, other, program(["return", "x"])) == Done(2)


def test_divergence_is_found():
    session, world = make_session("a"), World({"a": lambda x: x})
    play(session, world, program(["set", "x", 1], ["call", "a", 7], ["return", "x"]))
    saved = save(session, world, journal=True)
    saved.journal = saved.journal.replace(b'"set", "x", 1', b'"set", "x", 2')
    with pytest.raises(ReplayDivergence):
        load(saved, "a", guest="newer")


def test_a_worker_that_dies_between_runs_costs_nothing():
    session, world = make_session(), World({})
    play(session, world, program(["set", "x", 1]))
    world.fail_next = LinkLost("died", "killed")
    assert isinstance(play(session, world, program(["return", "x"])).error, WorkerCrashed)
    assert play(session, world, program(["return", "x"])) == Done(1)


def test_a_fork_divides_the_budget():
    session, world = make_session("a", limits=Limits(max_tool_calls=5, tool_budgets={"a": 4})), World({})
    saved = world.drive(session.save(release="1", guest="g"))
    branch = session.branch(saved, session_id="other", calls=None)
    assert (session.budget.remaining, branch.budget.remaining) == (3, 2)
    assert (session.budget.tool_limits["a"], branch.budget.tool_limits["a"]) == (2, 2)
    with pytest.raises(ValueError, match="calls that are left"):
        session.branch(saved, session_id="third", calls=9)


def test_stuck_code_is_named():
    session, world = make_session(), World({})
    world.drive(session.boot())
    world.guest.step = lambda request: _stuck()
    step = play(session, world, program())
    assert isinstance(step.error, DeadlockError)
    assert isinstance(step, Failed)


def _stuck():
    from gloveport.wire.messages import Reply

    body = b'{"t":"fail","kind":"stuck","name":"Error","message":"nothing can settle it"}'
    return Reply(0, 1, 0, len(body).to_bytes(4, "little") + body)
