"""What a box costs, as ratios to what the same machine does without one in the same moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from buildsteps import box

from tests.box.client import FREEZE, THAW, Connection
from tests.box.places import Place, state, wait_for


def fastest(call: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def bare() -> None:
    os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)


def proportional(pid: str) -> int:
    """KiB that a process has for itself, and its share of what it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def test_a_command_in_a_box_and_without(connection: Connection) -> None:
    def inside() -> None:
        assert connection.run("/usr/bin/true")["exit_code"] == 0

    for _ in range(3):  # in turns: what else runs here slows down both
        ratio = fastest(inside, 100) / fastest(bare, 100)
        if ratio <= 2:
            break
    print(f"{ratio:.2f} times")
    assert ratio <= 2, ratio


def test_a_new_box_and_its_first_command(place: Place) -> None:
    with ExitStack() as stack:

        def first() -> None:
            folder = stack.enter_context(place.box())
            with Connection(folder) as client:
                assert client.run("/usr/bin/true")["exit_code"] == 0

        ratios = [fastest(first, 5) / fastest(bare, 50) for _ in range(3)]  # in turns, as above
    print(f"{min(ratios):.2f} times")
    assert min(ratios) <= 40, ratios


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what a box has in memory")
def test_fifty_idle_boxes(place: Place) -> None:
    with ExitStack() as stack:
        folders = [stack.enter_context(place.box(memory_max=1 << 30, disk_max=1 << 30)) for _ in range(50)]
        for folder in folders:
            with Connection(folder) as client:
                client.run("true")
        pids = [state(folder)[name] for folder in folders for name in ("holder", "supervisor", "pid1")]
        total = sum(map(proportional, pids))
        print(f"{total / 50:.0f} KiB each")
        assert total / 50 <= 1024
        ticks = [sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) for pid in pids]
        time.sleep(1)
        after = [sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) for pid in pids]
        assert sum(after) - sum(ticks) <= 10  # hundredths of a second: who is idle does nothing


def test_a_pause_does_not_depend_on_memory(place: Place) -> None:
    fill = "b=bytearray(200<<20)\nfor i in range(0,len(b),4096): b[i]=1\nopen('/tmp/full','w').close()\nimport time; time.sleep(1000)"
    with place.box() as folder, Connection(folder, "ctl.sock") as control:

        def cycle() -> None:
            control.ask(FREEZE)
            control.ask(THAW)

        empty = fastest(cycle, 20)
        with Connection(folder) as client:
            client.ask(1, argv=["python3", "-c", fill])
        wait_for(lambda: (folder / "upper/tmp/full").exists())
        full = fastest(cycle, 20)
    print(f"{full * 1000:.2f} ms with 200 MiB, {empty * 1000:.2f} ms without")
    assert full <= empty * 5 + 0.005


@pytest.mark.parametrize("architecture", box.ARCHITECTURES)
def test_the_program_is_small(architecture: str) -> None:
    made = box.build(architecture)
    assert made is not None and made.stat().st_size <= 150_000
    assert made.read_bytes()[:4] == b"\x7fELF"
