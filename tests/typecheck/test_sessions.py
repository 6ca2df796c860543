"""What a session does with what a check found."""

from __future__ import annotations

import json

import pytest

from gloveport import (
    AgentSandbox,
    AsyncAgentSandbox,
    Done,
    Failed,
    IsolatedRuntime,
    SessionClosedError,
    SessionPausedError,
    SessionPool,
    ToolCall,
    TypeCheckError,
    TypeProblem,
)
from gloveport.bench.typecheck import BARS, measure
from gloveport.cli import main
from gloveport.engines.checker import Checker
from gloveport.stores import MemoryStore

WRONG = "await add(1, 2)\nreturn add('1')"
SAID = ["2:8 TS2554"]


@pytest.fixture
def calls():
    return []


@pytest.fixture
def tools(calls, compiler):
    def add(a: int, b: int) -> int:
        """The sum."""
        calls.append((a, b))
        return a + b

    return {"add": add}


def places(problems):
    return [f"{problem.line}:{problem.column} {problem.code}" for problem in problems]


def test_block_runs_nothing_and_charges_nothing(tools, calls, make_session):
    session = make_session(tools, typecheck="block", max_tool_calls=5)
    session.run("let kept = 1")
    runs, lost = session._core.runs, session.lost_runs
    with pytest.raises(TypeCheckError) as caught:
        session.run(f"kept = 2\n{WRONG}")
    assert places(caught.value.problems) == ["3:8 TS2554"]
    assert "\n3:8 TS2554 Expected 2 arguments, but got 1." in str(caught.value)
    step = session.start(WRONG)
    assert isinstance(step, Failed)
    assert (step.error_type, places(step.problems), places(session.problems)) == ("TypeCheckError", SAID, SAID)
    assert (calls, session.calls_made, session._core.runs, session.lost_runs) == ([], 0, runs, lost)
    assert session.run("return kept + await add(1, 1)") == 3
    assert session.problems == ()


def test_without_a_check_the_same_code_runs(tools, calls, make_session):
    session = make_session(tools)
    assert session.execute(WRONG).error_type not in (None, "TypeCheckError")
    assert calls == [(1, 2)]
    assert session.problems == ()


def test_warn_runs_and_notes(tools, calls, make_session):
    session = make_session(tools, typecheck="warn")
    assert session.run("return await add(1, 2) + [].lenght || 7") == 7
    assert places(session.problems) == ["1:29 TS2551"]
    done = session.start("return [].lenght")
    assert (done, places(done.problems)) == (Done(None), ["1:11 TS2551"])
    failed = session.execute("[].lenght; throw new Error('x')")
    assert (failed.error_type, places(failed.problems)) == ("Error", ["1:4 TS2551"])
    assert failed.stderr == ""


def test_warn_keeps_what_it_found_over_a_pause(tools, make_session):
    session = make_session(tools, typecheck="warn")
    step = session.start("return [].lenght ?? await add(1, 2)")
    assert isinstance(step, ToolCall)
    done = session.resume(step, 3)
    assert (done.value, places(done.problems)) == (3, ["1:11 TS2551"])
    assert places(done.to_result().problems) == ["1:11 TS2551"]


def test_problems_are_in_results_only_when_there_are_any(tools, compiler):
    with AgentSandbox(tools, isolation="inline", typecheck="warn") as session:
        assert "problems" not in session.execute("return 1").to_dict()
        data = json.loads(json.dumps(session.execute("return [].lenght").to_dict()))
    (problem,) = data["problems"]
    assert TypeProblem(**problem).code == "TS2551"


def test_a_syntax_error_is_told_as_ever(tools, make_session):
    session = make_session(tools, typecheck="block")
    result = session.execute("return (")
    assert (result.error_type, result.line, result.problems) == ("SyntaxError", 1, ())
    assert places(session.check("return (")) == ["1:9 SyntaxError"]


def test_check_changes_nothing_and_works_while_paused(tools, calls, make_session):
    session = make_session(tools)
    assert places(session.check(WRONG)) == SAID
    step = session.start("return await add(1, 2)")
    assert places(session.check(WRONG)) == SAID
    assert session.resume(step, 3) == Done(3)
    assert calls == []
    with pytest.raises(TypeError, match="must be a string"):
        session.check(5)
    session.close()
    with pytest.raises(SessionClosedError):
        session.check("return 1")


def test_a_paused_session_is_told_so_before_anything_is_checked(tools, make_session):
    session = make_session(tools, typecheck="block")
    session.start("return await add(1, 2)")
    with pytest.raises(SessionPausedError):
        session.run(WRONG)


def test_a_check_that_takes_too_long_is_a_problem_like_others(tools, compiler, monkeypatch):
    def slow(self, question, **more):
        return [TypeProblem(0, 0, "Unchecked", "checking took too long")]

    monkeypatch.setattr(Checker, "check", slow)
    with AgentSandbox(tools, isolation="inline", typecheck="block") as session:
        assert session.execute("return 1").error_type == "TypeCheckError"
    with AgentSandbox(tools, isolation="inline", typecheck="warn") as session:
        assert session.run("return 1") == 1
        assert session.problems[0].code == "Unchecked"


@pytest.mark.anyio
async def test_asyncio(tools, calls, setting):
    async with AsyncAgentSandbox(tools, typecheck="block", **setting) as session:
        with pytest.raises(TypeCheckError):
            await session.run(WRONG)
        assert (await session.start(WRONG)).error_type == "TypeCheckError"
        assert places(await session.check(WRONG)) == SAID
        assert (calls, session.calls_made) == ([], 0)
        assert await session.run("return add(1, 2)") == 3


@pytest.mark.anyio
async def test_a_session_of_a_pool_is_checked_on_another_host_as_well(tools, calls):
    store = MemoryStore()
    async with SessionPool(store, bytes(32), tools, isolation="inline", typecheck="block") as pool:
        async with pool.session("owner", "one") as session:
            await session.run("const first = 'text'")
            assert (await session.execute(WRONG)).error_type == "TypeCheckError"
    async with SessionPool(store, bytes(32), tools, isolation="inline", typecheck="block") as pool:
        async with pool.session("owner", "one") as session:
            result = await session.execute("return first.lenght")
            assert places(result.problems) == places(session.problems) == ["1:14 TS2551"]
            assert places(await session.check(WRONG)) == SAID
            assert await session.run("return first.length") == 4
    assert calls == []


def test_scripts_of_a_runtime(compiler):
    with IsolatedRuntime(functions={"twice": lambda n: 2 * n}, typecheck="block") as runtime:
        assert runtime.eval("const n = 4; n + 1") == 5
        result = runtime.execute("n.lenght")
        assert (result.error_type, places(result.problems)) == ("TypeCheckError", ["1:3 TS2339"])


def test_a_mode_that_does_not_exist():
    with pytest.raises(ValueError, match="`typecheck` must be one of 'off', 'warn', 'block'"):
        AgentSandbox({}, typecheck="strict")


def test_the_command_line(compiler, capsys):
    run = ["run", "--isolation", "inline", "-c", "return [].lenght ?? 5"]
    assert main([*run, "--typecheck", "block"]) == 1
    assert "1:11 TS2551" in capsys.readouterr().err
    assert main([*run, "--typecheck", "warn"]) == 0
    out, err = capsys.readouterr()
    assert (out, "1:11 TS2551" in err) == ("5\n", True)
    assert main(run) == 0
    assert capsys.readouterr().err == ""


def test_the_bench_measures_what_the_specification_promises(compiler):
    assert {row.name for row in measure(quick=True)} == set(BARS)
