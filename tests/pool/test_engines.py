"""Pools of sessions that have no images: what is stored of them is their history."""

from __future__ import annotations

import asyncio

from .conftest import as_of_now

V8 = {"engine": "v8", "isolation": "process"}


def test_a_session_of_v8_goes_on_on_any_host(any_store, make_pool, play):
    async def main():
        one, two = make_pool(any_store(), **V8), make_pool(any_store(), **V8)
        async with one.session("ada", "1") as session:
            assert await session.run("let n = 1; return await look(n)") == 1
            step = await session.start("n += 1; const got = await mail('bob'); return [got, n]", ask=["mail"])
        async with two.session("ada", "1") as session:
            assert session.pending == step
            assert (await session.resume(session.pending, "sent")).value == ["sent", 2]
        async with one.session("ada", "1") as session:
            assert (await session.run("return n"), session.calls_made) == (2, 2)

    play(main)


def test_a_paused_session_of_v8_gives_its_worker_back_and_has_another_one_later(store, make_pool, play):
    async def main():
        pool = make_pool(store, idle_timeout=0.05, eviction_interval=0.02, **V8)
        held = await pool.get("ada", "held")
        await held.run("let before = 5")
        await held.start("const got = await mail('x'); return [before, got]")
        for _ in range(100):
            await asyncio.sleep(0.05)
            if pool.stats().awake == 0:
                break
        assert pool.stats().awake == 0
        assert (await held.resume(held.pending, "y")).value == [5, "y"]

    play(main)


def test_what_a_dead_host_had_noted_is_asked_again(store, make_pool, play):
    async def main():
        pool = make_pool(store, **V8)
        session = await pool.get("ada", "1")
        for n in range(5):
            await session.run(f"globalThis.n = {n}; await look(n)")
        await session.start("const got = await mail('x'); return [n, got]", ask=["mail"])
        other = make_pool(as_of_now(store), **V8)
        async with other.session("ada", "1") as again:
            assert (await again.resume(again.pending, "y")).value == [4, "y"]
            assert (again.calls_made, await again.run("return n")) == (6, 4)

    play(main)
