"""Async tools that follow each other: the run moves into their task, and nobody must notice."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest

from gloveport import AsyncAgentSandbox, RuntimeTimeout

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("option", [{"tool_timeout": 0.3}, {"max_pause": 0.3}])
@pytest.mark.parametrize("before", [0, 3])
async def test_a_tool_that_hangs_is_cancelled_and_left_behind(either, option, before):
    ended = []

    async def t(i):
        if i == before:
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(i)
        return i

    async with AsyncAgentSandbox({"t": t}, **either, **option) as session:
        await session.run("globalThis.x = 1")
        result = await session.execute("x = 2; for (let i = 0; i < 9; i++) await t(i)")
        assert result.error_type == ("ToolTimeoutError" if "tool_timeout" in option else "RuntimeTimeout")
        await asyncio.sleep(0)
        assert ended == [before]
        assert await session.run("return x") == (2 if "tool_timeout" in option else 1)
        assert await session.run("return [await t(100), await t(101)]") == [100, 101]


async def test_a_timer_fires_while_a_tool_waits(either):
    release = asyncio.Event()

    async def t(i):
        if i == 2:
            await asyncio.wait_for(release.wait(), 20)
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


@pytest.mark.parametrize("where", ["tool", "guest"])
async def test_a_cancelled_run_is_rolled_back_wherever_it_is(worker, where):
    ended, tasks = [], asyncio.all_tasks()

    async def t(i):
        if where == "tool" and i == 3:
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(i)
        return i

    async with AsyncAgentSandbox({"t": t}, timeout=60, **worker) as session:
        await session.run("globalThis.x = 1")
        code = "x = 2; for (let i = 0; i < 9; i++) await t(i);" + ("for (;;);" if where == "guest" else "")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run(code), 0.4)
        await asyncio.sleep(0)
        assert ended == ([3] if where == "tool" else [])
        assert (await session.run("return x"), session.lost_runs) == (1, 1)
    assert asyncio.all_tasks() == tasks


async def test_each_call_has_its_own_context_variables(either):
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("the caller's")
    seen = []

    async def t():
        seen.append(variable.get())
        variable.set("a tool's")
        await asyncio.sleep(0)
        seen.append(variable.get())

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        await session.run("await t(); await t()")
    assert seen == ["the caller's", "a tool's"] * 2
    assert variable.get() == "the caller's"


async def test_timeouts_and_groups_inside_of_tools_concern_the_tool_only(either):
    async def t(i):
        if i % 2:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(5)
            return i
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0, i))
        return task.result()

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        assert await session.run("const r = []; for (let i = 0; i < 4; i++) r.push(await t(i)); return r") == [
            0,
            1,
            2,
            3,
        ]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_tool_that_cancels_itself_has_not_answered(either, waits):
    async def t(i):
        if i == 1:
            asyncio.current_task().cancel()
            if waits:
                await asyncio.sleep(5)
        return i

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        with pytest.raises(asyncio.CancelledError):
            await session.run("await t(0); await t(1); await t(2)")
        assert session.pending.args == (1,)
        assert (await session.resume(session.pending, 5)).status == "Succeeded"


async def test_other_tasks_have_their_turn_while_tools_never_wait(either):
    async def t(i):
        return i

    async with AsyncAgentSandbox({"t": t}, **either) as session:
        await session.run("return 1")
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        began = time.perf_counter()
        await session.run("for (let i = 0; i < 1000; i++) await t(i)")
        took = time.perf_counter() - began
        task.cancel()
        assert turns > took / 0.05  # a turn every few milliseconds on the whole


async def test_max_pause_counts_short_calls_too(either):
    async def t():
        await asyncio.sleep(0.05)

    async with AsyncAgentSandbox({"t": t}, **either, max_pause=0.4) as session:
        with pytest.raises(RuntimeTimeout):
            await session.run("for (;;) await t()")
        await session.run("await t()")


async def test_a_run_that_is_over_leaves_no_timer_behind():
    async def t():
        await asyncio.sleep(0)

    def timers():
        return sum(not handle.cancelled() for handle in asyncio.get_running_loop()._scheduled)

    async with AsyncAgentSandbox({"t": t}, isolation="inline") as session:
        await session.run("await t()")
        before = timers()
        for _ in range(5):
            await session.run("await t()")
        assert timers() == before
