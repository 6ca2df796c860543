"""The object of a tool catalog: any name is a call, and nothing happens by looking at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .driver import Session, answer


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(catalog="tools") as made:
        yield made


@pytest.fixture
def namespaced() -> Iterator[Session]:
    with Session(catalog="api", namespace="api") as made:
        yield made


def test_any_name_is_a_call_with_the_name_as_it_was_written(session: Session) -> None:
    said = session.run("const f = tools.a_b; f({x: 1}); tools['é\"\\ud800 .'](2); return await tool(3)")
    calls = [(m["n"], m["a"], m["f"]) for m in said if m["t"] == "call"]
    assert calls == [("tools.a_b", [{"x": 1}], 0), ('tools.é"\ud800 .', [2], 2), ("tool", [3], 0)]


def test_without_a_catalog_there_is_no_such_object() -> None:
    with Session() as plain:
        assert plain.value("return typeof tools") == "undefined"


def test_errors_of_a_call_name_it_and_its_place(session: Session) -> None:
    session.run("\n  await tools.save({})")
    failed = session.step(answer(1, {"name": "ToolNotFoundError", "message": "no"}, error=True))[-1]
    assert (failed["name"], failed["line"], failed["col"]) == ("ToolNotFoundError", 2, 15)
    assert "at tools.save (" in failed["stack"]
    refused = session.failure("await tools.save({f: () => 1})")
    assert refused["message"].startswith("argument 1 of tools.save: a function at `f`")


@pytest.mark.parametrize(
    "look",
    [
        "await tools",
        "console.log(tools, String(tools), `${tools}`)",
        "JSON.stringify(tools)",
        "Object.keys(tools); 'x' in tools; for (const k in tools); ({...tools})",
        "structuredClone({a: 1}); typeof tools.x; tools.x === tools.x; tools.x.name",
        "tools[Symbol.iterator]; tools[Symbol.toPrimitive]; tools.constructor; tools.then; tools.toJSON",
        "Promise.resolve(tools).then(() => 1)",
    ],
)
def test_looking_is_no_call(session: Session, look: str) -> None:
    assert [m for m in session.run(f"{look}; return 1") if m["t"] == "call"] == []
    assert session.run("tools.x()")[0]["n"] == "tools.x"


def test_it_cannot_leave_the_sandbox(session: Session) -> None:
    assert "a Proxy" in session.failure("return tools")["message"]
    assert "a Proxy" in session.failure("await tool(tools)")["message"]


def test_replacing_it_fools_only_the_guest(session: Session) -> None:
    assert session.value("tools.x = () => 'mine'; return tools.x()") == "mine"
    assert session.value("globalThis.tools = {y: () => 'all mine'}; return tools.y()") == "all mine"


def test_a_polluted_prototype_fools_only_the_guest(session: Session) -> None:
    body = "Object.prototype.get = Object.prototype.apply = () => 'mine'; delete tools.x; return [tools.get(), tools.x]"
    assert "a function" in session.failure(body)["message"]
    assert session.run("await tools.y()")[0]["n"] == "tools.y"


def test_a_run_cannot_publish_over_it(session: Session) -> None:
    publish = "$({tools: [() => 1, null]});"
    session.run("return 1", prelude=publish)
    assert session.run("tools.z()")[0]["n"] == "tools.z"


def test_in_a_namespace_it_is_the_namespace(namespaced: Session) -> None:
    said = namespaced.run("api.tool(1); api.find({}); return typeof tool")
    assert [m["n"] for m in said if m["t"] == "call"] == ["tool", "api.find"]
    assert said[-1]["calls"] == 2


def test_the_namespace_lists_the_tools_that_are_declared(namespaced: Session) -> None:
    assert namespaced.value("return [Object.keys(api), typeof tool]") == [["tool", "other"], "undefined"]


def test_its_functions_work_only_in_a_run() -> None:
    with Session(catalog="tools", bootstrap="try { tools.x() } catch (e) { globalThis.why = e.message }") as early:
        assert early.value("return why") == "tools can be called only while a run is going on"


def test_calls_at_the_end_of_the_stack_are_an_error_of_the_code(session: Session) -> None:
    deep = "let n = 0; const f = () => { n++; f(); tools.x({}) }; try { f() } catch (e) { return e.name }"
    said = session.run(deep)
    assert said[-1]["t"] in ("idle", "done"), said[-1]


def test_a_long_name_is_refused_or_whole(session: Session) -> None:
    said = session.run("tools['x'.repeat(1e6)]({})")
    assert len(said[0]["n"]) == 1_000_006
    with Session(catalog="tools", memory=512 << 20) as wide:
        assert wide.value("try { tools['x'.repeat(70e6)]({}) } catch (e) { return e.name }") == "RangeError"
