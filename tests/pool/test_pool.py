"""Taking sessions, giving them back, and finding them again."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

from gloveport import (
    JournalError,
    KeyRing,
    PoolFull,
    RuntimeTimeout,
    SealError,
    SessionBusyError,
    SessionClosedError,
    SessionPausedError,
    SessionPool,
    ToolCall,
)
from gloveport.stores import MemoryStore

from .conftest import KEY, TOOLS


def test_a_session_goes_on_on_any_host(any_store, make_pool, play):
    async def main():
        one, two = make_pool(any_store()), make_pool(any_store())
        async with one.session("ada", "1") as session:
            assert await session.run("let n = 1; const r = Math.random(); return await look(n)") == 1
            assert (await session.execute("throw new Error('x')")).error_type == "Error"
        async with two.session("ada", "1") as session:
            assert await session.run("n += 1; return n") == 2
            step = await session.start("const got = await mail('bob'); n += 10; return [got, n]", ask=["mail"])
            assert step.args == ("bob",)
        (record,) = any_store().list()
        assert (record.pending, record.label, record.spent) == ("mail", "ada/1", 2)
        async with one.session("ada", "1") as session:
            assert session.pending == step
            assert not session.interrupted
            done = await session.resume(session.pending, await session.call(session.pending))
            assert done.value == ["sent to bob", 12]
        async with two.session("ada", "1") as session:
            assert await session.run("return n") == 12
            assert (session.calls_made, session.pending, session.lost_runs) == (2, None, 0)
        assert (one.stats().created, one.stats().woken, two.stats().woken) == (1, 1, 2)

    play(main)


def test_the_same_host_takes_it_without_reading(store, make_pool, play):
    async def main():
        pool = make_pool(store)
        for number in range(3):
            async with pool.session("ada", "1") as session:
                assert await session.run("globalThis.n = (globalThis.n ?? 0) + 1; return n") == number + 1
        assert (pool.stats().reused, pool.stats().woken) == (2, 0)
        other = make_pool(store)
        async with other.session("ada", "1") as session:
            await session.run("n = 100")
        async with pool.session("ada", "1") as session:
            assert await session.run("return n") == 100, "what was awake here was older than what is stored"
        assert (pool.stats().reused, pool.stats().woken) == (2, 1)

    play(main)


def test_one_at_a_time_in_the_order_of_asking(store, make_pool, play):
    async def main():
        pool = make_pool(store)
        order = []

        async def use(number):
            async with pool.session("ada", "1"):
                order.append(number)
                await asyncio.sleep(0)

        held = await pool.get("ada", "1")
        with pytest.raises(SessionBusyError, match="in this process"):
            await pool.get("ada", "1", timeout=0)
        users = [asyncio.create_task(use(number)) for number in range(5)]
        await asyncio.sleep(0.01)
        assert (order, pool.stats().waiting, pool.stats().held) == ([], 5, 1)
        users[2].cancel()
        await pool.release(held.owner, held.sid)
        await asyncio.gather(*users, return_exceptions=True)
        assert order == [0, 1, 3, 4]
        async with pool.session("ada", "1"), pool.session("ada", "2"), pool.session("bob", "1"):
            pass

    play(main)


def test_two_hosts_never_have_it_at_once(any_store, make_pool, play):
    async def main():
        one, two = make_pool(any_store()), make_pool(any_store())
        inside = []

        async def use(pool):
            for _ in range(5):
                async with pool.session("ada", "1") as session:
                    inside.append(1)
                    assert len(inside) == 1
                    await session.run("globalThis.n = (globalThis.n ?? 0) + 1")
                    await asyncio.sleep(0.002)
                    inside.pop()

        await asyncio.gather(use(one), use(two))
        async with one.session("ada", "1") as session:
            assert await session.run("return n") == 10
            with pytest.raises(SessionBusyError, match="another host"):
                await two.get("ada", "1", timeout=0.05)
        await two.get("ada", "1", timeout=5)

    play(main)


def test_misuse_is_named(store, make_pool, play):
    async def main():
        pool = make_pool(store)
        session = await pool.get("ada", "1")
        task = asyncio.create_task(session.run("await look(1); await new Promise(r => setTimeout(r, 1)); await slow()"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pool.release("ada", "1")
        for use in (session.run("1"), session.start("1"), pool.release("ada", "1"), pool.release("no", "one")):
            with pytest.raises(SessionClosedError):
                await use
        with pytest.raises(SessionClosedError):
            _ = session.pending
        assert session.is_closed()
        async with pool.session("ada", "1") as session:
            with pytest.raises(SessionPausedError, match="interrupted"):
                await session.recover()
            with pytest.raises(TypeError):
                await session.run(5)
        await pool.close()
        await pool.close()
        with pytest.raises(SessionClosedError, match="pool is closed"):
            await pool.get("ada", "1")

    play(main)


def test_two_tasks_must_not_use_one_handle(store, make_pool, play):
    async def main():
        gate = asyncio.Event()

        async def wait():
            await gate.wait()
            return 1

        pool = make_pool(store, {"wait": wait})
        async with pool.session("ada", "1") as session:
            first = asyncio.create_task(session.run("return await wait()"))
            await asyncio.sleep(0.01)
            with pytest.raises(SessionBusyError, match="another task"):
                await session.run("return 2")
            with pytest.raises(SessionBusyError, match="another task"):
                await pool.release("ada", "1")
            gate.set()
            assert await first == 1

    play(main)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "x" * 201, "ü" * 200, None, b"x"])
def test_bad_names_are_refused(name, store, make_pool, play):
    async def main():
        pool = make_pool(store)
        for owner, sid in ((name, "1"), ("ada", name)):
            with pytest.raises((ValueError, TypeError)):
                await pool.get(owner, sid)
        assert store.list() == []

    play(main)


def test_no_two_names_are_one_session(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_sessions=None)
        names = [
            ("a/b", "c"),
            ("a", "b/c"),
            ("a%2Fb", "c"),
            ("a", "b"),
            ("A", "b"),
            (".", ".."),
            ("é", "1"),
            ("e\u0301", "1"),
        ]
        for number, (owner, sid) in enumerate(names):
            async with pool.session(owner, sid) as session:
                await session.run(f"globalThis.n = {number}")
        for number, (owner, sid) in enumerate(names):
            async with make_pool(store).session(owner, sid) as session:
                assert await session.run("return n") == number

    play(main)


def test_tools_may_depend_on_whose_session_it_is(store, make_pool, play):
    async def tools(owner, sid):
        return {"who": lambda: f"{owner} {sid}"}

    async def main():
        for owner in ("ada", "bob"):
            for make in (tools, lambda owner, sid: {"who": lambda: f"{owner} {sid}"}):
                async with make_pool(store, make).session(owner, "1") as session:
                    assert await session.run("return await who()") == f"{owner} 1"
        with pytest.raises(JournalError, match="other tools"):
            await make_pool(store, TOOLS).get("ada", "1")

    play(main)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_live": 0}, "max_live"),
        ({"max_sessions": -1}, "max_sessions"),
        ({"max_per_owner": True}, "max_per_owner"),
        ({"ttl": 0}, "ttl"),
        ({"lease": float("inf")}, "lease"),
        ({"idle_timeout": "5"}, "idle_timeout"),
        ({"durability": "never"}, "durability"),
        ({"interrupted": "x"}, "interrupted"),
        ({"key": b"short"}, "16 bytes"),
        ({"nonsense": 1}, "nonsense"),
        ({"timeout": -1}, "timeout"),
    ],
)
def test_bad_options_are_named_at_once(options, text, store, make_pool):
    with pytest.raises((ValueError, TypeError), match=text):
        make_pool(store, **options)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stored_sessions_are_limited(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_sessions=4, max_per_owner=2)
        for owner, sid in (("ada", "1"), ("ada", "2"), ("bob", "1")):
            async with pool.session(owner, sid):
                pass
        with pytest.raises(PoolFull, match="max_per_owner"):
            await pool.get("ada", "3")
        async with pool.session("ada", "2"), pool.session("cleo", "1"):
            pass
        with pytest.raises(PoolFull, match="max_sessions"):
            await pool.get("dan", "1")
        assert await pool.drop("ada", "1")
        async with pool.session("ada", "3"):
            pass
        assert not await pool.drop("nobody", "1")

    play(main)


def test_many_who_make_sessions_at_once_do_not_pass_the_limit(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_per_owner=3)
        results = await asyncio.gather(*(pool.get("ada", str(n)) for n in range(10)), return_exceptions=True)
        assert sum(isinstance(result, PoolFull) for result in results) == 7
        assert store.count() == 3

    play(main)


def test_sessions_end_with_their_time_and_what_they_spent_does_not(store, make_pool, play):
    async def main():
        pool = make_pool(store, ttl=1, max_tool_calls=5, tool_budgets={"mail": 2})
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.n = 1; await look(); await mail(); await mail()")
        await asyncio.sleep(1.1)
        async with pool.session("ada", "1") as session:
            assert await session.run("return globalThis.n ?? null") is None
            assert (session.calls_made, session.calls_remaining) == (3, 2)
            assert (await session.execute("await mail()")).error_type == "ToolBudgetError"
            await session.run("await look()")
            assert session.calls_remaining == 1
        assert await pool.drop("ada", "1")
        async with pool.session("ada", "1") as session:
            assert session.calls_remaining == 1
            assert (await session.execute("await mail()")).error_type == "ToolBudgetError"
        forgetful = make_pool(store, counter_ttl=0.05, max_tool_calls=5)
        async with forgetful.session("bob", "1") as session:
            await session.run("await look()")
        await forgetful.drop("bob", "1")
        await asyncio.sleep(0.1)
        async with forgetful.session("bob", "1") as session:
            assert session.calls_remaining == 5, "the control: after counter_ttl it is forgotten"

    play(main)


def test_a_session_over_its_size_goes_back_to_what_is_stored(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_journal_bytes=100_000)
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.n = 1; await look()")
        with pytest.raises(JournalError, match="max_journal_bytes"):
            async with pool.session("ada", "1") as session:
                await session.run("n = 2; for (let i = 0; i < 40; i++) await look('x'.repeat(9000) + i)")
        async with pool.session("ada", "1") as session:
            assert session.interrupted
            made = session.calls_made
            assert made > 1
            await session.roll_back()
            assert (await session.run("return n"), session.calls_made) == (1, made)

    play(main)


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_one_idle_longest_makes_room(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_live=2)
        for sid in "12":
            async with pool.session("ada", sid) as session:
                await session.run(f"globalThis.n = {sid}")
        async with pool.session("ada", "1"):
            pass
        async with pool.session("ada", "3"):
            assert pool.stats().awake == 2
        before = pool.stats()
        async with pool.session("ada", "1") as session:
            assert await session.run("return n") == 1
        assert (pool.stats().reused, pool.stats().woken) == (before.reused + 1, before.woken)
        async with pool.session("ada", "2") as session:
            assert await session.run("return n") == 2
        assert pool.stats().woken == before.woken + 1

    play(main)


def test_held_sessions_that_wait_give_their_workers_to_others(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_live=2)
        sessions = [await pool.get("ada", str(n)) for n in range(6)]
        steps = []
        for n, session in enumerate(sessions):
            steps.append(await session.start(f"const a = await mail('{n}'); return [a, {n}, Math.random()]"))
            assert pool.stats().awake <= 2
        assert pool.stats().held == 6
        values = [(await session.resume(step, "ok")).value for session, step in zip(sessions, steps, strict=True)]
        assert [value[:2] for value in values] == [["ok", n] for n in range(6)]
        assert len({value[2] for value in values}) == 6
        for n, session in enumerate(sessions):
            assert await session.run("return a") == "ok"
            await pool.release("ada", str(n))

    play(main)


def test_when_all_work_the_next_one_waits_and_then_gives_up(store, make_pool, play):
    async def main():
        gate = asyncio.Event()

        async def wait():
            await gate.wait()

        pool = make_pool(store, {"wait": wait}, max_live=1)
        session = await pool.get("ada", "1")
        work = asyncio.create_task(session.run("await wait(); return 1"))
        await asyncio.sleep(0.01)
        with pytest.raises(PoolFull, match="max_live"):
            await pool.get("ada", "2", timeout=0.05)
        waiting = asyncio.create_task(pool.get("ada", "2"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        gate.set()
        await waiting
        assert await work == 1

    play(main)


def test_idle_sessions_give_their_workers_back(store, make_pool, play):
    async def main():
        pool = make_pool(store, idle_timeout=0.05, eviction_interval=0.02)
        held = await pool.get("ada", "held")
        step = await held.start("return await mail('x')")
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.n = 1")
        assert pool.stats().awake == 2
        await asyncio.sleep(0.2)
        assert (pool.stats().awake, pool.stats().passivated, pool.stats().held) == (0, 2, 1)
        assert (await held.resume(step, "y")).value == "y"
        async with pool.session("ada", "1") as session:
            assert await session.run("return n") == 1
        other = make_pool(store, idle_timeout=0.05, eviction_interval=60)
        async with other.session("ada", "2"):
            pass
        assert await other.evict_idle() == 0
        await asyncio.sleep(0.06)
        assert await other.evict_idle() == 1

    play(main)


def test_a_passivated_session_has_no_process(store, make_pool, play):
    import os

    def alive(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    async def main():
        pool = make_pool(store, isolation="process", max_live=1)
        async with pool.session("ada", "1") as session:
            step = await session.start("return await mail('x')")
            pid = session.worker_pid
            assert alive(pid)
        async with pool.session("ada", "2") as session:
            await session.run("1")
            for _ in range(200):
                if not alive(pid):
                    break
                await asyncio.sleep(0.02)
            assert not alive(pid)
        assert os.getpid() != pid
        async with make_pool(store, isolation="process").session("ada", "1") as session:
            assert session.pending == step
            assert (await session.resume(step, 5)).value == 5

    play(main)


def test_a_pause_that_lasts_too_long_is_rolled_back_wherever_it_waits(store, make_pool, play):
    async def main():
        pool = make_pool(store, max_pause=0.15)
        code = "globalThis.n = 2; return await mail('x')"
        for sid in ("stored", "held", "in time"):
            async with pool.session("ada", sid) as session:
                await session.run("globalThis.n = 1")
                step = await session.start(code)
                if sid == "in time":
                    assert (await session.resume(step, 1)).value == 1
                if sid == "held":
                    await asyncio.sleep(0.2)
                    assert isinstance((await session.resume(step, 1)).error, RuntimeTimeout)
        await asyncio.sleep(0.2)
        for sid, n, lost in (("stored", 1, 1), ("held", 1, 1), ("in time", 2, 0)):
            async with make_pool(store, max_pause=0.15).session("ada", sid) as session:
                assert (session.pending, session.lost_runs, session.calls_made) == (None, lost, 1), sid
                if sid == "stored":
                    assert isinstance((await session.resume(step, 1)).error, RuntimeTimeout)
                assert await session.run("return n") == n

    play(main)


@pytest.mark.parametrize(("third", "kept"), [(450, True), (650, False)])
def test_a_pause_is_counted_once_on_however_many_hosts_it_waits(third, kept, store, make_pool, play, monkeypatch):
    clock = SimpleNamespace(time=lambda: now)
    monkeypatch.setattr("gloveport.stores.memory.time", clock)

    async def main():
        nonlocal now
        async with make_pool(store, max_pause=600, ttl=None).session("ada", "1") as session:
            step = await session.start("return await mail('x')")
        now += 200
        async with make_pool(store, max_pause=600, ttl=None).session("ada", "1") as session:
            assert await session.call(step) == "sent to x"
        now += third - 200
        async with make_pool(store, max_pause=600, ttl=None).session("ada", "1") as session:
            assert (session.pending, session.lost_runs) == ((step, 0) if kept else (None, 1))
            if kept:
                assert (await session.resume(step, 1)).value == 1

    now = 1e9
    play(main)


def test_what_another_host_waited_is_counted_here(store, make_pool, play, monkeypatch):
    """By what ends a pause that nobody ends, and for the pauses after it."""
    clock = SimpleNamespace(time=lambda: now)
    monkeypatch.setattr("gloveport.stores.memory.time", clock)

    async def main():
        nonlocal now
        for sid in ("left", "twice"):
            async with make_pool(store, max_pause=600, ttl=None).session("ada", sid) as session:
                step = await session.start("await mail('x'); return await mail('y')")
        now += 400
        async with make_pool(store, max_pause=600, ttl=None).session("ada", "twice") as session:
            assert (await session.resume(step, 1)).args == ("y",)
        now += 198
        async with make_pool(store, max_pause=600, ttl=None).session("ada", "left") as session:
            assert session.pending == step
            for _ in range(200):
                if session.pending is None:
                    break
                await asyncio.sleep(0.05)
            assert session.pending is None
        now += 100
        async with make_pool(store, max_pause=600, ttl=None).session("ada", "twice") as session:
            assert (session.pending, session.lost_runs) == (None, 1)

    now = 1e9
    play(main)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_tools_of_an_event_loop_whose_tasks_are_eager(store, make_pool, play):
    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)

        async def slow(x):
            await asyncio.sleep(0.01)
            return x

        async with make_pool(store, {"look": TOOLS["look"], "slow": slow}).session("ada", "1") as session:
            assert await session.run("return [await look(1), await slow(2), await look(3)]") == [1, 2, 3]
            assert await session.run("return await Promise.all([look(1), slow(2)])") == [1, 2]
            work = asyncio.create_task(session.run("while (true) await slow(1)"))
            await asyncio.sleep(0.05)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert await session.run("return await slow(4)") == 4

    play(main)


def test_cancelling_and_closing_roll_back_what_is_under_way(store, make_pool, play):
    async def main():
        gate = asyncio.Event()

        async def wait():
            await gate.wait()

        tools = {"wait": wait}
        pool = make_pool(store, tools)
        for how in ("cancel", "close"):
            async with pool.session("ada", how) as session:
                await session.run("globalThis.n = 1")

            async def use(how=how):
                async with pool.session("ada", how) as session:
                    await session.run("n = 2; await wait()")

            task = asyncio.create_task(use())
            await asyncio.sleep(0.05)
            if how == "cancel":
                task.cancel()
            else:
                gate.set()
                await pool.close()
            await asyncio.gather(task, return_exceptions=True)
        for how in ("cancel", "close"):
            async with make_pool(store, tools).session("ada", how) as session:
                assert await session.run("return n") in ((1,) if how == "cancel" else (1, 2))
                assert session.calls_made == 1

    play(main)


# ── sealing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_stored_can_be_encrypted_and_keys_rotated(store, make_pool, play):
    old = KeyRing({"a": KEY}, encrypt=True)
    both = KeyRing({"a": KEY, "b": b"b" * 32}, primary="b", encrypt=True)

    async def main():
        async with make_pool(store, key=old).session("ada", "1") as session:
            await session.run("const secret = 'xylophone'; await look(secret)")
        record = store.get(store.list()[0].key)
        assert b"xylophone" not in b"".join((record.blob, *record.segments, record.tally))
        async with make_pool(store, key=both, max_live=1).session("ada", "1") as session:
            assert await session.run("return secret") == "xylophone"
        with pytest.raises(SealError):
            await make_pool(store, key=old).get("ada", "1")
        with pytest.raises(SealError):
            await make_pool(store, key=KEY).get("ada", "1")

    play(main)


def test_a_pool_belongs_to_its_loop(store):
    pool = SessionPool(store, KEY, TOOLS, isolation="inline")

    async def use():
        async with pool.session("ada", "1") as session:
            return await session.run("return 1")

    async def use_and_close():
        try:
            return await use()
        finally:
            for task in pool._tasks:
                task.cancel()

    assert asyncio.run(use_and_close()) == 1
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(use())


def test_the_steps_of_a_pool_are_those_of_a_session(make_pool, play):
    """Whatever an `AsyncAgentSandbox` does, a pooled session gives the same."""
    from gloveport import AsyncAgentSandbox

    codes = [
        "let n = 1; return n",
        "n += await look(5); console.log('n', n); return {n}",
        "throw new TypeError('x')",
        "return await Promise.all([look(1), mail('y'), look(2)])",
        "syntax error here",
        "return Math.random()",
    ]

    async def main():
        options = {"clock": 1_000_000, "random_seed": 5, "max_tool_calls": 5, **make_pool.own}
        pool = make_pool(MemoryStore(), **{**options, "max_live": 1})
        plain = AsyncAgentSandbox(TOOLS, **options)
        for code in codes:
            async with pool.session("a", "b") as session:
                pooled = await session.execute(code)
            async with pool.session("a", "other"):
                pass  # so that it has to wake
            assert pooled == await plain.execute(code)
        async with pool.session("a", "b") as session:
            step = await session.start("const x = await look('p'); return x + await look('q')")
            assert step == await plain.start("const x = await look('p'); return x + await look('q')")
            while isinstance(step, ToolCall):
                mine, theirs = await session.resume(step, "v"), await plain.resume(step, "v")
                assert repr(mine) == repr(theirs)
                step = mine
            assert (session.calls_made, session.calls_remaining) == (plain.calls_made, plain.calls_remaining)
        await plain.close()

    play(main)


def test_what_was_found_in_a_catalog_stays_found(store, make_pool, play):
    tools = [
        {
            "name": f"tool_{n}",
            "description": f"number {n}",
            "inputSchema": {"type": "object"},
            "callable": lambda args: "ok",
        }
        for n in range(30)
    ]

    async def main():
        options = {"tools_catalog": tools, "max_live": 1, "max_tool_calls": 10}
        async with make_pool(store, **options).session("ada", "1") as session:
            assert (await session.execute("return await tools.tool_7({})")).error_type == "ToolNotDiscoveredError"
            await session.run("return await describe_tool('tool_7')")
        async with make_pool(store, **options).session("ada", "1") as session:
            assert session.discovered_tools == ("tool_7",)
            assert await session.run("return await tools.tool_7({})") == "ok"
            made = session.calls_made
        async with make_pool(store, **options).session("ada", "1") as session:
            assert session.calls_made == made

    play(main)


def test_a_pool_with_other_options_refuses_what_it_would_misread(store, make_pool, play):
    async def main():
        async with make_pool(store, namespace="tools").session("ada", "1") as session:
            assert await session.run("return await tools.look(1)") == 1
        for options, text in (
            ({}, "namespace='tools'"),
            ({"namespace": "tools", "redact_host_errors": False}, "redact"),
        ):
            with pytest.raises(JournalError, match=text):
                await make_pool(store, **options).get("ada", "1")

    play(main)


def test_what_was_computed_is_not_computed_again_by_waking(store, make_pool, play):
    """A pause is stored as what was asked of the guest, unless answering it again would take long: then as an image."""
    long = "let x = 1; for (let i = 0; i < 3e6; i++) x = (x * 31 + i) % 1000003;"

    async def main():
        pool = make_pool(store, max_live=1)
        for sid, work in (("short", ""), ("long", long)):
            async with pool.session("ada", sid) as session:
                await session.start(work + "const a = await mail('x'); return [a, 7]")
        short, image = (store.get(f"gloveport/session/ada/{sid}") for sid in ("short", "long"))
        assert (len(short.segments), image.segments) == (1, ())
        for sid in ("short", "long"):
            async with make_pool(store).session("ada", sid) as session:
                assert (await session.resume(session.pending, 1)).value == [1, 7]
                assert await session.run("return a") == 1

    play(main)


def test_a_write_is_finished_though_its_caller_is_cancelled(make_pool, play):
    import time as clock

    class Slow:
        """A store that is not in memory, as far as the pool can tell."""

        def __init__(self):
            self.inner = MemoryStore()

        def __getattr__(self, name):
            method = getattr(self.inner, name)

            def slow(*arguments, **keywords):
                clock.sleep(0.03)
                return method(*arguments, **keywords)

            return slow

    async def main():
        slow = Slow()
        pool = make_pool(slow)
        for after in (0.01, 0.04, 0.07):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pool.get("ada", f"get {after}"), after)
            async with pool.session("ada", f"get {after}", timeout=0.5):
                pass
            async with pool.session("ada", "run") as session:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(session.run("globalThis.n = (globalThis.n ?? 0) + 1; await look()"), 0.01)
                assert await session.run("return 5") == 5
        assert pool.stats().lost == 0

    play(main)
