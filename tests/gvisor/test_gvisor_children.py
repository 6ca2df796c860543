"""What a keeper does beside its machine: without `runsc`."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from gloveport.errors import SandboxError
from gloveport.machines.gvisor.keeper import Keeper

SOURCE = """
import os, subprocess, sys, time
from gloveport.machines.gvisor.children import adopt_orphans, end_children
from gloveport.machines.gvisor.network import Starter

def made(path):
    while not os.path.exists(path) or not (text := open(path).read()).endswith("\\n"):
        time.sleep(0.01)
    return int(text)

def lives(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

folder = sys.argv[1]
daemon = ["/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > $0", f"{folder}/gateway"]
starter = Starter(daemon)
adopt_orphans()
assert starter.start()
subprocess.run([*daemon[:3], f"{folder}/orphan"], check=True)
gateway, orphan = made(f"{folder}/gateway"), made(f"{folder}/orphan")
try:
    end_children((starter.pid,))
    print(lives(gateway), lives(orphan))
    starter.close()
    print(lives(gateway))
finally:
    for pid in filter(lives, (gateway, orphan)):
        os.kill(pid, 9)
"""


@pytest.fixture(autouse=True)
def in_state():
    """No machine is made here."""


def test_a_gateway_that_a_keeper_started_is_not_its_to_end(tmp_path):
    done = subprocess.run([sys.executable, "-c", SOURCE, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True False\nTrue\n", done.stderr


@pytest.mark.parametrize("error", [SandboxError("no"), OSError(28, "No space left on device")])
def test_clocks_go_on_after_what_went_wrong(tmp_path, error):
    async def main():
        keeper = Keeper(tmp_path, {"runsc": "/none", "delete_after_ms": 1})
        keeper._phase, tries = "paused", 0

        async def act():
            nonlocal tries
            tries += 1
            if tries == 1:
                raise error
            keeper.ended.set()

        keeper._act = act
        await asyncio.wait_for(keeper._watch(), 30)

    asyncio.run(main())
