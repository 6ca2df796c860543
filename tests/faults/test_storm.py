"""A short storm. The long one: `python -m tests.faults.storm --seconds 120`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from .storm import WRONG, storm


def test_whatever_happens_to_hosts_the_sessions_add_up():
    result = storm(12, seed=int.from_bytes(os.urandom(3)))
    print(result)
    assert {name: result[name] for name in WRONG} == dict.fromkeys(WRONG, 0), result
    # A storm in which nothing happened would say nothing.
    assert result["killed"] >= 3
    assert result["answered"] >= 50


FROZEN = """
import asyncio, sys
from gloveport import SessionPool, LeaseLost
from gloveport.stores import PostgresStore

async def main():
    async def charge(amount):
        print("charged", amount, flush=True)
        return amount

    pool = SessionPool(PostgresStore(sys.argv[1], table_prefix="frozen_"), b"k" * 32, {"charge": charge}, lease=0.6, isolation="inline")
    session = await pool.get("ada", "1")
    await session.run("globalThis.n = 1; await charge(1)")
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    try:
        await session.run("n = 2; await charge(2)")
    except LeaseLost:
        print("LeaseLost", flush=True)
    try:
        await session.run("n = 3; await charge(3)")
    except LeaseLost:
        print("LeaseLost", flush=True)
    await pool.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("freeze", [True, False])
def test_a_host_that_was_stopped_past_its_lease_does_nothing_more(freeze, postgres):
    import asyncio

    from gloveport import SessionPool
    from gloveport.stores import PostgresStore

    prefix = f"frozen_{'yes' if freeze else 'no'}_"
    script = FROZEN.replace("frozen_", prefix)
    host = subprocess.Popen(
        [sys.executable, "-c", script, postgres], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert [host.stdout.readline().strip() for _ in range(2)] == ["charged 1", "ready"]

    async def take_over():
        store = PostgresStore(postgres, table_prefix=prefix)
        async with SessionPool(store, b"k" * 32, {"charge": lambda amount: amount}, isolation="inline") as pool:
            async with pool.session("ada", "1", timeout=20) as session:
                n = await session.run("return n")
                await session.run("n = 100; await charge(100)")
                if freeze:
                    host.send_signal(signal.SIGCONT)
                    output = host.communicate("go\n", timeout=60)[0].split("\n")
                else:
                    output = []
        store.close()
        return n, output

    if freeze:
        host.send_signal(signal.SIGSTOP)
        n, output = asyncio.run(take_over())
        assert (n, output[:2], host.returncode) == (1, ["LeaseLost", "LeaseLost"], 0)
    else:  # the control: it goes on, and only then can someone else
        output = host.communicate("go\n", timeout=60)[0].split("\n")
        assert output[:2] == ["charged 2", "charged 3"]
        n, _ = asyncio.run(take_over())
        assert n == 3
