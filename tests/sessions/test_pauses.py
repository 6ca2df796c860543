"""Runs that are driven call by call: order, refusals, what ends them from outside, and what they are charged."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time

import pytest

from gloveport import (
    AgentSandbox,
    AsyncAgentSandbox,
    Done,
    Failed,
    NotPausedError,
    RunCancelled,
    SessionBusyError,
    SessionClosedError,
    SessionPausedError,
    ToolCall,
)

KEY = b"0123456789abcdef"
TOOLS = {"ask": lambda x=None: x, "mail": lambda to: f"sent to {to}"}


def drive(session, step, answer):
    """Answers every call; the names and arguments that were asked for, and the end."""
    seen = []
    while isinstance(step, ToolCall):
        seen.append((step.name, *step.args))
        got = answer(step)
        step = session.resume(step, error=got) if isinstance(got, Exception) else session.resume(step, got)
    return seen, step


def test_a_rejected_group_ends_only_after_all_its_calls(make_either):
    session = make_either(TOOLS)
    code = "try { await Promise.all([ask(1), ask(2), ask(3)]) } catch (e) { return e.name }"
    step = session.start(code)
    seen, step = drive(session, step, lambda call: KeyError("no") if call.args == (1,) else "late")
    assert (seen, step) == ([("ask", 1), ("ask", 2), ("ask", 3)], Done("KeyError"))
    assert session.run("return await ask('next')") == "next"


def test_calls_that_nobody_waits_for_are_handed_out_before_the_end(make_either):
    session = make_either(TOOLS)
    seen, step = drive(session, session.start("ask(1); mail('x'); return 'end'"), lambda call: 0)
    assert (seen, step) == ([("ask", 1), ("mail", "x")], Done("end"))
    seen, step = drive(session, session.start("ask(1); throw new TypeError('end')"), lambda call: 0)
    assert (seen, step.error_type) == ([("ask", 1)], "TypeError")
    step = session.start("ask(1); return 'end'")
    step = session.resume(step, error=ValueError("nobody catches this"))
    assert step == Done("end") and "ValueError" in step.stderr


def test_a_denied_call_can_be_caught_and_the_reason_is_redacted(make_either):
    code = "try { return await mail('eve') } catch (e) { return [e.name, e.message, e instanceof Error] }"
    denied = PermissionError("the reviewer's reason")
    hidden, shown = make_either(TOOLS), make_either(TOOLS, redact_host_errors=False)
    assert hidden.resume(hidden.start(code), error=denied).value == ["PermissionError", "host function failed", True]
    assert shown.resume(shown.start(code), error=denied).value == ["PermissionError", "the reviewer's reason", True]
    step = hidden.resume(hidden.start("await mail('eve')"), error=denied)
    assert isinstance(step, Failed) and (step.error_type, "reason" in step.error.args[0]) == ("PermissionError", False)
    assert hidden.resume(hidden.start("return await mail('ada')"), hidden.call(hidden.pending)).value == "sent to ada"


def test_nothing_else_runs_while_a_session_waits(make_either):
    session = make_either(TOOLS)
    step = session.start("return await ask(1)")
    for use in (
        lambda: session.run("return 1"),
        lambda: session.execute("return 1"),
        lambda: session.start("return 1"),
    ):
        with pytest.raises(SessionPausedError, match="paused at `ask`"):
            use()
        assert session.pending == step
    assert session.resume(step, "still") == Done("still")


def test_of_two_threads_that_answer_one_is_heard(make_either):
    session = make_either(TOOLS)
    step = session.start(
        "globalThis.n = (globalThis.n ?? 0) + await ask(1); let s = 0; for (let i = 0; i < 3e6; i++) s += i; return n"
    )
    meet, ends = threading.Barrier(2), []

    def answer():
        meet.wait(20)
        try:
            ends.append(session.resume(step, 1))
        except Exception as error:
            ends.append(error)

    threads = [threading.Thread(target=answer) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(end == Done(1) for end in ends) == 1
    assert sum(isinstance(end, SessionBusyError | NotPausedError) for end in ends) == 1
    assert session.run("return n") == 1


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_over_the_budget_never_reaches_whoever_drives(make_either):
    session = make_either(TOOLS, max_tool_calls=2, tool_budgets={"mail": 1})
    code = """const out = [];
for (const call of [() => mail('a'), () => mail('b'), () => ask(1), () => ask(2)])
    try { out.push(await call()) } catch (e) { out.push(e.name) }
return out"""
    seen, step = drive(session, session.start(code), lambda call: call.name)
    assert seen == [("mail", "a"), ("ask", 1)]
    assert step.value == ["mail", "ToolBudgetError", "ask", "ToolBudgetError"]
    assert (session.calls_made, session.calls_remaining) == (2, 0)
    with AgentSandbox.load(session.dump(KEY), KEY, TOOLS, **engine_of(session)) as copy:
        assert copy.execute("await ask(3)").error_type == "ToolBudgetError"


def engine_of(session):
    return {"engine": session._core.identity.engine} | (
        {"isolation": "inline"} if session._core.identity.engine == "wasm" else {}
    )


# ── what ends a run from outside ─────────────────────────────────────────────────────────────────────────────────────


def kill(session):
    os.kill(session.worker_pid, signal.SIGKILL)
    time.sleep(0.05)


def test_a_worker_that_dies_while_its_session_waits_costs_that_run_only(worker):
    with AgentSandbox(TOOLS, **worker, max_tool_calls=5) as session:
        session.run("let before = [1]")
        step = session.start("before.push(2); const got = await ask('?'); before.push(got); return before")
        kill(session)
        assert session.pending == step
        assert session.resume(step, 3).error_type == "WorkerCrashed"
        assert (session.lost_runs, session.calls_made, session.pending) == (1, 1, None)
        assert session.run("return before") == [1]


def test_a_pause_that_nobody_ends_gives_its_worker_back(worker):
    with AgentSandbox(TOOLS, max_pause=0.3, max_tool_calls=5, **worker) as session:
        session.run("let x = 1")
        step = session.start("x = 2; return await ask(1)")
        assert session.worker_pid
        deadline = time.monotonic() + 20
        while session.pending is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (session.pending, session.worker_pid, session.lost_runs) == (None, None, 1)
        assert session.resume(step, 1).error_type == "RuntimeTimeout"
        assert (session.run("return x"), session.calls_made) == (1, 1)


def test_who_comes_while_a_pause_expires_is_told_so(worker, monkeypatch):
    """And not that the session is in use."""
    with AgentSandbox(TOOLS, max_pause=0.2, **worker) as session:
        step = session.start("return await ask(1)")
        release, begun = session._driver.release, threading.Event()

        def slow():
            begun.set()
            time.sleep(0.3)
            release()

        monkeypatch.setattr(session._driver, "release", slow)
        assert begun.wait(20)
        assert session.resume(step, 1).error_type == "RuntimeTimeout"


def test_a_session_that_is_closed_while_it_waits_is_over(worker):
    session = AgentSandbox(TOOLS, **worker)
    step = session.start("return await ask(1)")
    session.close()
    session.close()
    for use in (
        lambda: session.resume(step, 1),
        lambda: session.run("1"),
        lambda: session.dump(KEY),
        lambda: session.fork(),
    ):
        with pytest.raises(SessionClosedError):
            use()
    assert session.is_closed()


@pytest.mark.anyio
async def test_a_cancelled_run_has_no_worker_any_more_when_the_caller_learns_of_it(worker):
    entered = asyncio.Event()

    async def hang():
        entered.set()
        await asyncio.sleep(60)

    tasks = asyncio.all_tasks()
    async with AsyncAgentSandbox({"hang": hang}, **worker) as session:
        await session.run("let x = 1")
        pid = session.worker_pid
        task = asyncio.create_task(session.run("x = 2; await hang()"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.worker_pid != pid
        assert await session.run("return x") == 1
    assert asyncio.all_tasks() == tasks


@pytest.mark.anyio
async def test_an_answer_that_comes_after_the_end_changes_nothing(either):
    entered, release, answered = threading.Event(), threading.Event(), threading.Event()

    def late():
        entered.set()
        release.wait(30)
        answered.set()
        return "x" * 1_000_000

    mailed = []
    session = await AsyncAgentSandbox.create({"late": late, "mail": mailed.append}, **either, max_tool_calls=5)
    task = asyncio.create_task(session.run("await late(); await mail('after the end')"))
    await asyncio.to_thread(entered.wait, 20)
    await session.close()
    made = session.calls_made
    release.set()
    with pytest.raises(RunCancelled, match="closed"):
        await task
    assert answered.is_set()
    assert (mailed, session.calls_made, session.worker_pid, session.is_closed()) == ([], made, None, True)


@pytest.mark.parametrize("waits", ["for a tool", "for the guest"])
def test_a_session_that_another_thread_closes_calls_no_other_tool(make_either, waits):
    entered, release, mailed = threading.Event(), threading.Event(), []

    def late():
        entered.set()
        return release.wait(30)

    if waits == "for the guest":
        release.set()
    session = make_either({"late": late, "mail": mailed.append}, timeout=60)
    code = "await late(); " + ("for (;;); " if waits == "for the guest" else "") + "await mail('after the end')"

    def close():
        entered.wait(20)
        if waits == "for the guest":
            time.sleep(0.2)
        session.close()
        release.set()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(RunCancelled, match="closed"):
        session.run(code)
    closer.join(20)
    assert mailed == []
    with pytest.raises(SessionClosedError):
        session.run("return 1")


def test_every_way_to_end_leaves_nothing(worker):
    """Crashes, closings, forgotten sessions, refused and lost ones: no process, no thread, no descriptor."""
    from .test_processes import _count, _settled

    def crash():
        with AgentSandbox(TOOLS, **worker) as session:
            session.start("await ask(1)")
            kill(session)

    def close():
        session = AgentSandbox(TOOLS, **worker)
        session.start("await ask(1)")
        session.close()

    def forget():
        session = AgentSandbox(TOOLS, **worker)
        session.start("await ask(1)")
        del session
        gc.collect()

    def refuse():
        with AgentSandbox(TOOLS, **worker) as session:
            session.run("let a = 1")
            blob = bytearray(session.dump(KEY))
        blob[-1] ^= 1
        with pytest.raises(Exception, match=r"key|seal|changed|authentic"):
            AgentSandbox.load(bytes(blob), KEY, TOOLS, **worker)

    def time_out():
        with AgentSandbox(TOOLS, timeout=0.1, **worker) as session:
            session.execute("for (;;);")

    ways = (crash, close, forget, refuse, time_out)
    for way in ways:
        way()
    before = _count()
    for _ in range(3):
        for way in ways:
            way()
    settled, *counts = _settled(before)
    assert settled, counts
