"""A host of the storm: `python -m tests.faults.host CONNINFO SEED ISOLATION`. It works until it is killed.

Its tool leaves a row for every call that it really made. The code of the sessions keeps a ledger of what became of each call, in
their own state; so the two can be compared at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys

import psycopg

from gloveport import CallOutcomeUnknownError, SessionPool, ToolCall
from gloveport.errors import GloveportError, LeaseLost, StoreError
from gloveport.stores import PostgresStore

KEY = b"the key of the storm, which is known"
SESSIONS = 8
LEASE = 0.8
TURN = """
globalThis.turn = (globalThis.turn ?? 0) + 1; globalThis.ledger ??= [];
const note = async (tag, call) => { try { ledger.push([tag, await call(tag)]) } catch (e) { ledger.push([tag, e.name]) } };
await note(`${turn}.a`, charge);
await Promise.all([note(`${turn}.b`, charge), note(`${turn}.c`, charge)]);
await note(`${turn}.d`, approve);
await note(`${turn}.e`, charge);
return turn
"""


def make_pool(conninfo, tools, **options):
    """The pool that every host of a storm has."""
    store = PostgresStore(conninfo, table_prefix="storm_")
    return store, SessionPool(store, KEY, tools, lease=LEASE, acquire_timeout=5, max_tool_calls=10**6, **options)


class Tools:
    """`charge` is called by the code, `approve` by the host once a session was found waiting for it."""

    def __init__(self, conninfo):
        self.conninfo = conninfo
        self.connection = None

    async def open(self):
        """Connect; before anything else."""
        self.connection = await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True)
        return self

    async def effect(self, session, tag):
        row = await (
            await self.connection.execute(
                "INSERT INTO effects (session, tag) VALUES (%s, %s) RETURNING id", (session, tag)
            )
        ).fetchone()
        await asyncio.sleep(random.random() * 0.004)
        return row[0]

    def of(self, owner, sid):
        async def charge(tag):
            return await self.effect(sid, tag)

        async def approve(tag):
            return await self.effect(sid, tag)

        async def nap():
            await asyncio.sleep(random.random() * 0.01)

        return {"charge": charge, "approve": approve, "nap": nap}


async def use(session):
    """One thing that is to be done for a session."""
    if session.interrupted:
        await session.recover()
    elif session.pending is not None:
        step = session.pending
        try:
            value = await session.call(step)
        except CallOutcomeUnknownError as unknown:
            await session.resume(step, error=unknown)
        else:
            await session.resume(step, value)
    elif random.random() < 0.15:
        with contextlib.suppress(TimeoutError):  # a caller that gives up
            await asyncio.wait_for(session.run("await nap(); await nap(); return 1"), 0.008)
    else:
        step = await session.start(TURN, ask=["approve"])
        if isinstance(step, ToolCall) and random.random() < 0.3:
            await session.resume(step, await session.call(step))


async def work(pool):
    while True:
        sid = str(random.randrange(SESSIONS))
        try:
            async with pool.session("storm", sid, timeout=0.5) as session:
                await use(session)
        except (LeaseLost, StoreError) as error:
            print(type(error).__name__, flush=True)
        except GloveportError as error:
            if not error.retryable:
                print("UNEXPECTED", repr(error), flush=True)
                raise


async def main(conninfo, seed, isolation):
    random.seed(int(seed))
    durability = random.choice(["turn", "call"])
    options = {
        "durability": durability,
        "isolation": isolation,
        "max_live": 3,
        "idle_timeout": 0.5,
        "eviction_interval": 0.1,
    }
    _, pool = make_pool(conninfo, (await Tools(conninfo).open()).of, **options)
    print("started", durability, flush=True)
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work(pool))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
