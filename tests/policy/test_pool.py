"""A policy in sessions that hosts share."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from gloveport import JournalError, SessionPool
from gloveport.stores import MemoryStore
from gloveport.types import Done

KEY = secrets.token_bytes(32)


def pool(store, made, **options):
    async def send(to):
        made.append(to)
        return f"sent to {to}"

    return SessionPool(store, KEY, {"send": send}, isolation="inline", **options)


async def careful(request):
    await asyncio.sleep(0)
    return ("deny", "not bob") if request.args == ("bob",) else ("ask", f"mail to {request.args[0]}")


def test_a_reason_waits_in_the_store():
    async def main():
        store, made = MemoryStore(), []
        options = {"policy": careful, "max_tool_calls": 9, "run_budgets": {"send": 2}}
        async with pool(store, made, **options) as host, host.session("ada", "1") as session:
            assert await session.run("return await send('bob').catch(e => e.message)") == "not bob"
            code = "const t = []; for (const to of ['al', 'bob', 'cy', 'di']) t.push(await send(to).catch(e => e.name)); return t"
            step = await session.start(code, ask=())
            assert (step.reason, session.calls_made) == ("mail to al", 1)
        async with pool(store, made, **options) as host, host.session("ada", "1") as session:
            assert (session.pending, session.pending.reason, session.pending.unknown) == (step, "mail to al", False)
            assert session.calls_remaining_by_tool == {"send": 1}
            step = await session.resume(session.pending, await session.call(session.pending))
            assert (step.args, step.reason, session.calls_made) == (("cy",), "mail to cy", 2)
            end = await session.resume(step, "by hand")
            assert end == Done(["sent to al", "ToolDeniedError", "by hand", "ToolBudgetError"])
        assert made == ["al"]
        async with pool(store, made) as host:
            with pytest.raises(JournalError, match="policy"):
                await host.get("ada", "1")

    asyncio.run(main())


def test_a_call_that_a_dead_host_began_is_flagged():
    async def main():
        store, made = MemoryStore(), []
        host = pool(store, made, policy=careful, lease=0.5)
        session = await host.get("ada", "1")
        step = await session.start("return await send('al')", ask=())
        live = session._live
        live._core.begin_call(step)
        await live.book.write(live._core, live._driver, waits=live.waits)  # and no more is heard of this host
        live.abort()
        for task in host._tasks:
            task.cancel()
        async with (
            pool(store, made, policy=careful, lease=0.5) as other,
            other.session("ada", "1", timeout=20) as again,
        ):
            assert (again.pending.unknown, again.pending.reason) == (True, "mail to al")
            assert again.unknown_calls == (step,)
            assert again.unknown_calls[0].idempotency_key == step.idempotency_key
            assert await again.call(again.pending, again=True) == "sent to al"
        assert made == ["al"]

    asyncio.run(main())
