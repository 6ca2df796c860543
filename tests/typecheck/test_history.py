"""A check knows what earlier runs declared."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, TypeCheckError


def open_orders(status: str) -> list[dict[str, int]]:
    """Orders."""
    return [{"id": 1}]


def test_types_of_earlier_runs(check):
    first = "const orders = await open_orders('x')\nfunction best(list) { return list[0] }\nreturn orders"
    assert check("return orders[0].total + best(orders)", first) == []
    assert check("return orders[0].totl", first) == ["1:18 TS2551"]
    assert check("return orders[0].totl") == ["1:8 TS2304"]


def test_types_and_classes_that_earlier_runs_named(check):
    first = "interface Note { text: string }\nclass Box { value: number = 1 }"
    assert check("const n: Note = { text: 'a' }; return new Box().value + n.text", first) == []
    assert check("const n: Note = { txt: 'a' }; return n", first) == ["1:19 TS2561"]


def test_a_name_may_be_declared_anew(check):
    assert check("const x = 'text'; return x.toUpperCase()", "const x = 5") == []
    assert check("return x.toUpperCase()", "const x = 'text'", "const x = 5") == ["1:10 TS2339"]


def test_problems_of_earlier_runs_are_not_told_again(check):
    assert check("return 1", "return nothing", "const a: string = 5") == []


def test_a_history_with_gaps_makes_every_name_possible(check):
    assert check("return other + 1", complete=False) == []
    assert check("await open_orders(other, 1, 2)", complete=False) == ["1:29 TS2554"]


def test_what_the_bootstrap_put_on_the_global_object(check):
    assert check("return helper(1)", bootstrap="globalThis.helper = (x) => x") == []
    assert check("return helper(1)", bootstrap="Object.assign(globalThis, { helper() {} })") == []
    assert check("return helper(1)", bootstrap="const unrelated = 1") == ["1:8 TS2304"]


@pytest.fixture
def session(either, compiler):
    with AgentSandbox({"open_orders": open_orders}, typecheck="block", **either) as made:
        yield made


def test_runs_that_were_rolled_back_or_refused_declared_nothing(session):
    session.run("const kept = 1")
    assert session.execute("const lost = 1; nothing()").error_type == "TypeCheckError"
    assert [p.code for p in session.check("return kept + lost")] == ["TS2304"]


def test_a_run_that_threw_declared_its_names(session):
    assert session.execute("const kept = 1; throw new Error('x')").error_type == "Error"
    assert session.check("return kept") == []


def test_the_history_goes_with_the_session(session, either):
    session.run("const orders = await open_orders('x')")
    key = bytes(32)
    blob = session.dump(key)
    tools = {"open_orders": open_orders}
    with AgentSandbox.load(blob, key, tools, typecheck="block", **either) as loaded, loaded.fork() as fork:
        for branch in (loaded, fork):
            assert branch.run("return orders.length") == 1
            with pytest.raises(TypeCheckError, match="1:15 TS2551"):
                branch.run("return orders.lenght")


def test_a_session_that_was_saved_without_is_checked_without_its_names(either, compiler):
    key = bytes(32)
    with AgentSandbox({"open_orders": open_orders}, **either) as session:
        session.run("const orders = 1")
        blob = session.dump(key)
    with AgentSandbox.load(blob, key, {"open_orders": open_orders}, typecheck="block", **either) as loaded:
        assert loaded.run("return orders") == 1
        with pytest.raises(TypeCheckError, match="TS2345"):
            loaded.run("return open_orders(5)")
