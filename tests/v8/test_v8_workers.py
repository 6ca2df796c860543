"""Workers of the v8 engine: where they come from, what they may use, and that nothing of them stays."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, EngineUnavailableError, WorkerCrashed
from gloveport.engines.v8 import pool as v8_pools
from gloveport.engines.v8.pool import V8Pool, v8_pool

from ..conftest import rest_v8_pools

MIB = 1 << 20
root = pytest.mark.skipif(os.getuid() != 0, reason="only root can look")


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def sockets(pid):
    """How many sockets a process has beyond its stdio (of which Deno has copies)."""
    targets = {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    others = set(targets.values()) - {targets[0], targets[1], targets[2]}
    return sum(target.startswith("socket:") for target in others), {t for t in others if t.startswith("/")}


@pytest.fixture
def pool():
    made = V8Pool(sandbox="require", max_memory=64 * MIB, spares=1)
    yield made
    made.close()
    until(lambda: not made._dying)


def test_v8_has_process_isolation_only():
    for isolation in ("inline", "shared"):
        with pytest.raises(ValueError, match="isolation='process'"):
            AgentSandbox({}, engine="v8", isolation=isolation)
    with pytest.raises(ValueError, match="max_memory"):
        AgentSandbox({}, engine="v8", max_memory=16 * MIB)
    with pytest.raises(ValueError, match="engine"):
        AgentSandbox({}, engine="node")


def test_the_first_session_has_the_compiler_started():
    """Whatever declares something goes there: the first such run need not wait for that."""
    code = (
        "import time\nfrom gloveport import AgentSandbox\nfrom gloveport.engines.defaults import toolbox\n"
        "with AgentSandbox({}, engine='v8') as session:\n"
        "    session.run('return 1')\n"
        "    end = time.monotonic() + 20\n"
        "    while toolbox('require').pid is None and time.monotonic() < end: time.sleep(0.01)\n"
        "    print(toolbox('require').pid is not None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_every_session_has_a_process_of_its_own_that_ends_with_it(v8):
    sessions = [v8() for _ in range(3)]
    pids = [session.worker_pid for session in sessions]
    assert len(set(pids)) == 3
    for session in sessions:
        session.close()
    until(lambda: all(map(gone, pids)))


def test_a_spare_is_ready_and_one_that_died_is_not_given(pool):
    first = pool.take()
    until(lambda: pool._ready)
    spare = pool._ready[0]
    os.kill(spare.pid, signal.SIGKILL)
    until(lambda: not spare.alive)
    second = pool.take()
    assert second.alive and second is not spare
    for worker in (first, second):
        worker.close()


def test_a_pool_at_rest_keeps_no_worker_until_one_is_wanted(pool):
    pool.take().close()
    until(lambda: pool._ready)
    pids = [worker.pid for worker in pool._ready]
    pool.rest()
    until(lambda: all(map(gone, pids)) and not pool._dying and not pool._starting)
    time.sleep(0.3)  # longer than a start takes
    assert not pool._ready
    pool.take().close()
    until(lambda: pool._ready)


def test_a_pool_that_cannot_start_says_why_each_time_and_recovers(pool, monkeypatch):
    pool.take().close()
    until(lambda: pool._ready)
    with monkeypatch.context() as broken:
        broken.setattr(v8_pools, "BUNDLE", v8_pools.BUNDLE.with_name("none.js"))
        pool.rest()
        for _ in range(2):
            with pytest.raises(EngineUnavailableError, match="not built"):
                pool.take()
    pool.take().close()


def test_a_pool_goes_on_when_a_thread_could_not_be_started(pool, monkeypatch):
    start = threading.Thread.start

    def fails(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    first = pool.take()
    monkeypatch.setattr(threading.Thread, "start", start)
    second = pool.take(timeout=30.0)
    assert first.alive and second.alive
    first.close()
    second.close()


def test_a_collected_session_takes_its_worker_along():
    session = AgentSandbox({}, engine="v8")
    pid = session.worker_pid
    del session
    gc.collect()
    until(lambda: gone(pid))


@root
def test_a_worker_has_its_socket_its_bell_and_an_empty_environment(v8):
    session = v8()
    pid = session.worker_pid
    with open(f"/proc/{pid}/environ", "rb") as file:
        names = {entry.partition(b"=")[0] for entry in file.read().split(b"\0") if entry}
    assert names == {b"DENO_DIR", b"NO_COLOR", b"TZ"}
    # The event loop of Deno has some of its own: they are those of a process that nobody gave anything.
    program = "console.log('up'); await new Promise(r => setTimeout(r, 60_000))"
    with subprocess.Popen(
        [v8_pools.worker_program(64 * MIB).argv[0], "eval", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={"DENO_DIR": "/dev/null/none"},
    ) as bare:
        try:
            assert bare.stdout.readline() == b"up\n"
            assert sockets(pid) == (sockets(bare.pid)[0], {"/bell (deleted)"})
        finally:
            bare.kill()


def test_memory_is_limited_as_a_whole(v8):
    limits = []
    for mib in (64, 128):
        session = v8(max_memory=mib * MIB)
        with open(f"/proc/{session.worker_pid}/limits") as file:
            line = next(line for line in file if line.startswith("Max data size"))
        limits.append(int(line.split()[4]))
        assert session.execute(f"return new Uint8Array({mib // 2} * 2 ** 20).fill(1).length").ok
        kept = "const kept = []; for (let i = 0; i < %d; i++) kept.push(new Uint8Array(2 ** 20).fill(1)); return kept.length"
        assert session.execute(kept % (mib * 3)).error_type == "MemoryLimitExceeded"
        assert session.run("return typeof kept") == "undefined"  # rolled back, and alive
    assert 32 * MIB < limits[1] - limits[0] < 96 * MIB


def test_the_heap_is_limited(v8):
    session = v8(max_memory=64 * MIB, timeout=20)
    bomb = "const a = []; for (let i = 0; i < %d; i++) a.push({i, s: 'x' + i}); return a.length"
    assert session.execute(bomb % 100_000).result == 100_000
    assert session.execute(bomb % 100_000_000).error_type == "MemoryLimitExceeded"
    assert session.run("return a.length") == 100_000


def test_a_worker_that_is_killed_is_a_crash_and_not_a_matter_of_memory(v8):
    session = v8({"die": lambda: os.kill(session.worker_pid, signal.SIGKILL)})
    session.run("let a = 1")
    with pytest.raises(WorkerCrashed):
        session.run("await die()")
    assert session.run("return a") == 1


def test_other_modes_of_the_sandbox():
    with AgentSandbox({"t": lambda x: x}, engine="v8", sandbox="off") as session:
        assert session.run("return await t(2)") == 2
        assert (
            session.execute("const a = []; for (;;) a.push(new Uint8Array(2 ** 20))").error_type
            == "MemoryLimitExceeded"
        )


@pytest.mark.anyio
async def test_the_loop_is_not_held_up_by_a_worker_that_computes():
    async with AsyncAgentSandbox({}, engine="v8", timeout=0.5) as session:
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticker = asyncio.create_task(tick())
        result = await session.execute("console.log('so far'); for (;;);")
        ticker.cancel()
        assert (result.error_type, result.stdout) == ("RuntimeTimeout", "so far\n")
        assert ticks > 10
        assert await session.run("return 1") == 1


def test_a_forked_host_makes_workers_of_its_own(v8):
    session = v8()
    read, write = os.pipe()
    pid = os.fork()
    if not pid:  # the child: neither pytest's cleanup nor its parent's sessions are its own
        try:
            with AgentSandbox({}, engine="v8") as mine:
                os.write(write, b"%d" % mine.run("return 6 * 7"))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"42"
    os.waitpid(pid, 0)
    assert session.run("return 1") == 1


def steady_descriptors():
    """How many there are once their number has stayed the same for a second: other engines' spares may be on their way."""
    counts = [-1]
    while len(counts) < 20 or len(set(counts[-20:])) > 1:
        time.sleep(0.05)
        counts.append(len(os.listdir("/proc/self/fd")))
    return counts[-1]


def test_thirty_sessions_leave_nothing():
    rest_v8_pools()
    tools = {"t": lambda x: x}
    with AgentSandbox(tools, engine="v8") as session:  # threads that stay: of tools, of pauses
        session.run("return await t(1)")
        session.start("return await t(1)")
    pool = v8_pool("require", 256 * MIB)

    def settled():
        return len(pool._ready) == pool._spares and not pool._dying

    until(settled)
    before = (steady_descriptors(), threading.active_count())
    pids = []
    for i in range(30):
        with AgentSandbox(tools, engine="v8", timeout=0.2 if i % 10 == 9 else 30) as session:
            pids.append(session.worker_pid)
            session.start("return await t(1)")
            if i % 3 == 0:
                session.resume(session.pending, 1)
            if i % 10 == 9:
                assert not session.is_closed()
    until(settled)
    until(lambda: all(map(gone, pids)))
    until(
        lambda: len(os.listdir("/proc/self/fd")) <= before[0]
    )  # less, where something of another test has ended meanwhile
    assert threading.active_count() <= before[1]
