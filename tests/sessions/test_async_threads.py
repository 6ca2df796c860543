"""Sync tools of an asyncio session: the run moves into their thread, and nobody must notice."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, RuntimeTimeout
from gloveport.core.commands import LinkLost
from gloveport.host.async_driver import AsyncDriver
from gloveport.host.task_trip import TaskTrip
from gloveport.host.thread_trip import ThreadTrip
from gloveport.host.trip import Hold, Trip

pytestmark = pytest.mark.anyio

THREE_CALLS = "for (let i = 0; i < 3; i++) await t(i);"


async def test_a_row_of_calls_is_one_stretch_in_one_thread(either, monkeypatch):
    stretches, threads = [], []

    async def in_thread(*args):
        stretches.append(args)
        return await go(*args)

    go = AsyncDriver.in_thread
    monkeypatch.setattr(AsyncDriver, "in_thread", in_thread)
    async with AsyncAgentSandbox({"t": lambda i: threads.append(threading.get_ident())}, **either) as session:
        await session.run("for (let i = 0; i < 20; i++) await t(i)")
    assert len(stretches) == 1
    assert len(threads) == 20 and len(set(threads)) == 1 and threads[0] != threading.get_ident()


@pytest.mark.parametrize("option", [{"tool_timeout": 0.3}, {"max_pause": 0.3}])
@pytest.mark.parametrize("before", [0, 3])
async def test_a_tool_that_hangs_is_left_behind(either, option, before):
    release, late = threading.Event(), []

    def t(i):
        if i == before:
            release.wait(30)
            late.append(i)
        return i

    async with AsyncAgentSandbox({"t": t}, **either, **option) as session:
        await session.run("globalThis.x = 1")
        began = time.monotonic()
        result = await session.execute("x = 2; for (let i = 0; i < 9; i++) await t(i)")
        assert time.monotonic() - began < 20
        assert result.error_type == ("ToolTimeoutError" if "tool_timeout" in option else "RuntimeTimeout")
        assert await session.run("return x") == (2 if "tool_timeout" in option else 1)
        release.set()
        while not late:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # its late answer must not be taken for another one's
        assert await session.run("return [await t(100), await t(101)]") == [100, 101]


async def test_a_timer_fires_while_a_tool_hangs(either):
    release = threading.Event()

    def t(i):
        if i == 2:
            assert release.wait(20)
        if i == 3:
            release.set()
        return i

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        code = (
            "await t(0); await t(1); const slow = t(2);"
            "const r = await Promise.race([slow, new Promise(r => setTimeout(() => r('timer'), 50))]);"
            "await t(3); return [r, await slow]"
        )
        assert await session.run(code) == ["timer", 2]


def reaching(last, hang=lambda: None):
    """A tool, and what is set once it was called with `last`."""
    reached, loop = asyncio.Event(), asyncio.get_running_loop()

    def t(i):
        if i == last:
            loop.call_soon_threadsafe(reached.set)
            hang()
        return i

    return t, reached


@pytest.mark.parametrize("where", ["tool", "guest"])
async def test_a_cancelled_run_is_rolled_back_wherever_it_is(either, where):
    """An inline guest computes in the tool's thread then: the loop can end it."""
    release = threading.Event()
    t, reached = reaching(2, (lambda: release.wait(30)) if where == "tool" else (lambda: None))
    async with AsyncAgentSandbox({"t": t}, timeout=60, **either) as session:
        await session.run("globalThis.x = 1")
        task = asyncio.create_task(session.run("x = 2;" + THREE_CALLS + ("for (;;);" if where == "guest" else "")))
        await reached.wait()
        await asyncio.sleep(0.3)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 20
        assert (await session.run("return x"), session.lost_runs) == (1, 1)
        release.set()


async def test_the_guests_timeout_holds_after_a_call(setting):
    async with AsyncAgentSandbox({"t": lambda i: i}, timeout=0.3, **setting) as session:
        with pytest.raises(RuntimeTimeout):
            await session.run(THREE_CALLS + "for (;;);")
        assert await session.run(THREE_CALLS + "return 5") == 5


async def test_other_tasks_have_their_turn(either):
    """Also while the guest computes, inline too."""
    async with AsyncAgentSandbox({"t": lambda i: i}, timeout=1, **either) as session:
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.01)

        task = asyncio.create_task(other())
        with pytest.raises(RuntimeTimeout):
            await session.run(THREE_CALLS + "for (;;);")
        task.cancel()
        assert turns > 10


async def test_each_call_has_its_own_context_variables(either):
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("the caller's")
    seen = []

    def t(i):
        seen.append(variable.get())
        variable.set("a tool's")

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        await session.run(THREE_CALLS)
    assert seen == ["the caller's"] * 3
    assert variable.get() == "the caller's"


async def test_async_tools_between_are_awaited_on_the_callers_loop(either):
    """And functions that give a coroutine, which are called in a thread."""
    loops, here = [], asyncio.get_running_loop()

    async def awaited(i):
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return i

    def disguised(i):
        assert threading.current_thread() is not threading.main_thread()
        return awaited(i)

    async with AsyncAgentSandbox({"t": lambda i: i, "awaited": awaited, "disguised": disguised}, **either) as session:
        code = (
            "const r = []; for (let i = 0; i < 3; i++) r.push(await t(i), await awaited(10 + i), await disguised(20 + i),"
            "...await Promise.all([t(30 + i), awaited(40 + i), disguised(50 + i)])); return r"
        )
        assert await session.run(code) == [n + i for i in range(3) for n in (0, 10, 20, 30, 40, 50)]
    assert set(loops) == {here} and len(loops) == 12


async def test_what_calls_the_user_stays_on_the_loops_thread(either):
    seen = []

    def told(stream, text):
        seen.append((text, threading.get_ident()))

    async with AsyncAgentSandbox({"t": lambda i: i}, **either, on_console=told) as session:
        await session.run("await t(0); console.log('a'); await t(1); console.log('b')")
    assert {ident for _, ident in seen} == {threading.get_ident()}
    assert [text.strip() for text, _ in seen] == ["a", "b"]


async def test_a_tool_that_would_end_the_process_pauses_the_session(either):
    def t(i):
        if i == 1:
            raise SystemExit(3)
        return i

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        with pytest.raises(SystemExit):
            await session.run(THREE_CALLS + "return 7")
        assert session.pending.args == (1,)
        assert (await session.resume(session.pending, 5)).value == 7


async def test_a_closed_session_ends_its_run(either):
    t, reached = reaching(2)
    async with AsyncAgentSandbox({"t": t}, timeout=60, **either) as session:
        task = asyncio.create_task(session.execute(THREE_CALLS + "for (;;);"))
        await reached.wait()
        await asyncio.sleep(0.3)
        await session.close()
        assert (await asyncio.wait_for(task, 20)).error_type == "RunCancelled"


# ── the caller is interrupted ────────────────────────────────────────────────────────────────────────────────────────


def test_the_guest_is_stopped_only_while_it_is_asked():
    """One that is stopped after its last answer would be missing in the next run."""
    hold, stopped = Hold(), []
    assert hold.ask(lambda command: command, 5) == 5
    assert hold.depart(0.0) and hold.arrive()

    def asked(command):
        assert not hold.interrupt(KeyboardInterrupt("first"), lambda: stopped.append(command))
        raise LinkLost("died", "it was stopped")

    with pytest.raises(LinkLost):
        hold.ask(asked, 6)
    assert stopped == [6]
    with pytest.raises(KeyboardInterrupt, match="first"):
        hold.ask(lambda command: stopped.append("asked"), 7)
    assert not hold.interrupt(KeyboardInterrupt("second"), lambda: stopped.append("between"))
    assert not hold.depart(0.0)
    assert stopped == [6]


def test_an_answer_that_came_with_the_interruption_is_not_gone_on_with():
    hold = Hold()

    def asked(command):
        hold.interrupt(KeyboardInterrupt("now"), lambda: None)
        return command

    with pytest.raises(KeyboardInterrupt, match="now"):
        hold.ask(asked, 5)


@pytest.mark.parametrize("tool", ["sync", "async"])
async def test_a_cancellation_at_the_very_end_is_not_swallowed(either, monkeypatch, tool):
    """A loop around `run` would go on for ever. The run has ended, and its session knows."""
    over = {"sync": (ThreadTrip, "_end"), "async": (TaskTrip, "_tell")}[tool]
    tell = getattr(*over)
    task = None

    def told(trip, *args):
        tell(trip, *args)
        if task is not None and (tool == "sync" or trip._over):
            task.cancel()

    async def awaited(i):
        return i

    async with AsyncAgentSandbox({"t": awaited if tool == "async" else lambda i: i}, **either) as session:
        await session.run("globalThis.x = 1")
        pid = session.worker_pid
        monkeypatch.setattr(*over, told)
        task = asyncio.create_task(session.run(THREE_CALLS + "x = 2"))
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()
        assert (await session.run("return x"), session.lost_runs) == (2, 0)
        assert session.worker_pid == pid


def test_an_interruption_at_the_very_end_is_not_swallowed(either, monkeypatch):
    wait = Trip.wait

    def interrupted(trip):
        wait(trip)
        raise KeyboardInterrupt

    with AgentSandbox({"t": lambda i: i}, **either) as session:
        session.run("globalThis.x = 1")
        pid = session.worker_pid
        monkeypatch.setattr(Trip, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run(THREE_CALLS + "x = 2")
        monkeypatch.undo()
        assert (session.run("return x"), session.lost_runs) == (2, 0)
        assert session.worker_pid == pid
