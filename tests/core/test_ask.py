"""Runs that answer most calls themselves and hand out the rest."""

from __future__ import annotations

import msgspec

from gloveport.core.commands import Answer
from gloveport.types import Done, ToolCall

from .test_session import load, save
from .world import World, make_session, program, value


def test_only_the_asked_tools_are_handed_out_and_the_others_are_answered_first():
    session, world = make_session("a", "b"), World({"a": lambda _: 1, "b": lambda _: 2})
    step = world.drive(session.start(program(["all", ["a", "b", "a"]], ["return", "last"]), frozenset(["b"])))
    assert step == ToolCall("b", (None,), 2)
    assert world.trace.count("Launch") == 2
    assert list(session.run.open) == [2]
    assert world.drive(session.resume(step, value(2, "x"), 0.0)) == Done("x")


def test_a_tool_can_ask_for_the_pause_itself_and_is_not_called_again():
    session, world = make_session("a", "b"), World({"a": lambda _: 1, "b": lambda _: 2})
    answer = world.answer
    world.answer = lambda call: Answer(call.id, False, b"", pause=True) if call.name == "b" else answer(call)
    step = world.drive(session.start(program(["all", ["b", "a"]], ["call", "a", 0], ["return", "last"]), frozenset()))
    assert step == ToolCall("b", (None,), 1)
    copy, other = load(save(session, world), "a", "b")
    other.tools = world.tools
    assert copy.pending == step
    assert other.drive(copy.resume(step, value(1, "x"), 0.0)) == Done(1)
    assert other.trace.count("Launch") == 1


def test_ids_are_not_reused_after_a_lost_run():
    session, world = make_session("a"), World({})
    first = world.drive(session.start(program(["call", "a", 0])))
    session.expire()
    world.guest = None
    session._expired = None
    second = world.drive(session.start(program(["call", "a", 0], ["return", "last"])))
    assert (first.call_id, second.call_id) == (1, 2)
    assert world.drive(session.resume(second, value(2, 5), 0.0)) == Done(5)


def test_what_was_saved_stays_as_it_was_while_the_run_goes_on():
    session, world = make_session("a", "b"), World({"a": lambda _: 1, "b": lambda _: 2})
    source = program(["log", "x"], ["all", ["b", "b"]], ["log", "y"], ["call", "a", 0], ["return", "last"])
    step = world.drive(session.start(source, frozenset("b")))
    saved = world.drive(session.save(release="1", guest="g"))
    before = msgspec.msgpack.encode(saved.run)
    session.run.open[2].held = True
    step = world.drive(session.resume(step, value(1, 0), 0.0))
    assert world.drive(session.resume(step, value(2, 0), 0.0)).value == 1
    assert msgspec.msgpack.encode(saved.run) == before
