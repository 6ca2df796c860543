"""The core's side of a catalog, with a guest that says anything."""

from __future__ import annotations

import pytest

from gloveport.core.discovery import Refusal, ToolInfo
from gloveport.core.saved import decode_saved, encode_saved
from gloveport.policy import Limits
from gloveport.types import Failed, ToolCall

from .world import World, make_session, program, value

FIND = ("call", "find", "x")


class FakeCatalog:
    object = "tools"
    finders = frozenset({"find"})

    def __init__(self, *names):
        self.names = set(names)

    def info(self, js_name):
        return ToolInfo(js_name.replace("_", "-"), js_name) if js_name in self.names else None

    def js_name(self, name):
        return next((js for js in self.names if name in (js, js.replace("_", "-"))), None)

    def covers(self, name):
        return self.js_name(name) is not None

    def refusal(self, js_name, *, found, hint):
        return Refusal("Refused", f"{js_name} {found}")


def session_with(*names, limits=None, catalog=None):
    catalog = catalog or FakeCatalog(*names)
    tools = {f"tools.{name}": (lambda x, name=name: [name, x]) for name in names}
    world = World({"find": lambda x: [{"name": "a_b"}], **tools})
    return make_session("find", limits=limits, catalog=catalog), world


def refused(session, world, name):
    step = world.drive(session.execute(program(("call", name, 1), ("return", "last"))))
    return step.value == {"error": "Refused"}


def test_found_by_an_answer_and_not_before():
    session, world = session_with("a_b")
    assert refused(session, world, "tools.a_b")
    step = world.drive(session.execute(program(FIND, ("call", "tools.a_b", 1), ("return", "last"))))
    assert step.value == ["a_b", 1]
    assert session.discovery.found == {"a_b": "a-b"}
    assert (session.budget.made, session.budget.tool_made) == (2, {"find": 1, "a-b": 1})


@pytest.mark.parametrize("name", ["tools.", "tools.x", "tools.tools.a_b", "tools.A_B", "tools.a-b", "tools.find"])
def test_no_other_spelling_is_the_tool(name):
    session, world = session_with("a_b")
    world.drive(session.execute(program(FIND, ("return", "last"))))
    assert refused(session, world, name)
    assert session.budget.made == 1


@pytest.mark.parametrize("name", ["a_b", "Tools.a_b", "toolsXa_b", ".a_b", "other.a_b", ""])
def test_names_of_no_tool_end_the_worker(name):
    session, world = session_with("a_b")
    world.drive(session.execute(program(FIND, ("return", "last"))))
    step = world.drive(session.execute(program(("call", name, 1), ("return", "last"))))
    assert isinstance(step, Failed)
    assert step.error_type == "WorkerCrashed"
    plain = make_session("find")
    step = World({}).drive(plain.execute(program(("call", "tools.a_b", 1), ("return", "last"))))
    assert step.error_type == "WorkerCrashed"


def test_a_refused_call_is_charged_to_nothing_even_if_the_run_dies():
    session, world = session_with("a_b", limits=Limits(max_tool_calls=2, max_host_calls=2))
    step = world.drive(session.execute(program(*[("all", ["tools.a_b"] * 5)] * 3, ("spin",))))
    assert step.error_type == "RuntimeTimeout"
    assert session.budget.made == 0
    assert session.discovery.found == {}


def test_what_was_found_survives_a_rollback_and_a_save():
    session, world = session_with("a_b")
    assert world.drive(session.execute(program(FIND, ("spin",)))).error_type == "RuntimeTimeout"
    assert session.discovery.found == {"a_b": "a-b"}
    saved = decode_saved(encode_saved(world.drive(session.save(release="1", guest="g"))))
    other, world = session_with("a_b")
    world.drive(other.restore(saved, guest="g"))
    assert not refused(other, world, "tools.a_b")


def test_a_paused_call_keeps_its_name_when_the_tool_is_gone():
    catalog = FakeCatalog("a_b")
    session, world = session_with("a_b", catalog=catalog)
    world.drive(session.execute(program(FIND, ("return", "last"))))
    step = world.drive(session.start(program(("call", "tools.a_b", 7), ("return", "last"))))
    assert step == ToolCall("a-b", (7,), 2)
    catalog.names.clear()
    assert session.pending == step
    assert world.drive(session.resume(step, value(step.call_id, "by hand"), 0.0)).value == "by hand"
    assert refused(session, world, "tools.a_b")


def test_budgets_of_its_tools_are_checked_when_the_session_is_made():
    session, world = session_with("a_b", limits=Limits(tool_budgets={"a-b": 1}))
    world.drive(session.execute(program(FIND, ("call", "tools.a_b", 1), ("call", "tools.a_b", 2), ("return", "last"))))
    assert session.budget.tool_made["a-b"] == 1
    with pytest.raises(ValueError, match="names 'c'"):
        session_with("a_b", limits=Limits(tool_budgets={"c": 1}))
