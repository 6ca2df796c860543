"""Sessions and the processes around them: threads, forks, crashes, and what is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox
from gloveport.errors import EngineUnavailableError


def test_any_thread_may_use_a_session(worker):
    with AgentSandbox({"t": lambda x: x}, **worker) as session, ThreadPoolExecutor(4) as pool:
        session.run("globalThis.n = 0")
        for _ in range(8):
            pool.submit(session.run, "n += await t(1)").result()
        assert session.run("return n") == 8


def test_sessions_in_threads_do_not_meet(make_session):
    def one(i):
        session = make_session({"t": lambda x: x})
        return session.run(f"globalThis.mine = {i}; for (let k = 0; k < 20; k++) await t(k); return mine")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(24))) == list(range(24))


def _in_child(queue, options):
    with AgentSandbox({"t": lambda x: x + 1}, **options) as session:
        queue.put(session.run("return await t(1)"))


def test_a_forked_child_makes_sessions_of_its_own(worker):
    with AgentSandbox({"t": lambda x: x}, **worker) as session:
        session.run("globalThis.x = 7")
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_in_child, args=(queue, worker))
        child.start()
        assert queue.get(timeout=60) == 2
        child.join(30)
        assert child.exitcode == 0
        assert session.run("return x") == 7


def test_the_workers_death_costs_the_run_only(worker):
    entered = threading.Event()
    with AgentSandbox({"t": lambda: entered.set() or time.sleep(0.2)}, **worker) as session:
        session.run("globalThis.x = 1")
        pid = session.worker_pid

        def kill():
            entered.wait(20)
            os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        result = session.execute("x = 2; await t(); return 'not reached'")
        killer.join()
        assert result.error_type == "WorkerCrashed"
        assert (session.run("return x"), session.lost_runs) == (1, 1)


@pytest.mark.parametrize("step", range(6))
def test_the_worker_killed_at_every_step(worker, step):
    """Killed before the n-th thing that is asked of it: the session answers everything that comes after."""
    tools = {"t": lambda x: x}
    key = b"k" * 16
    with AgentSandbox(tools, **worker) as session:
        session.run("globalThis.x = 1")
        actions = [
            lambda: session.execute("x = await t(1); return x"),
            lambda: session.start("x = await t(1); return x"),
            lambda: session.pending and session.resume(session.pending, 1),
            lambda: session.start("await t(1)") if session.pending is None else None,
            lambda: session.dump(key),
            lambda: session.pending and session.resume(session.pending, 1),
        ]
        for number, action in enumerate(actions):
            if number == step and session.worker_pid:
                os.kill(session.worker_pid, signal.SIGKILL)
                time.sleep(0.05)
            try:
                action()
            except Exception as error:  # a typed one
                assert type(error).__module__.startswith("gloveport.errors")
        while session.pending is not None:
            session.resume(session.pending, 1)
        assert session.run("return x") == 1
        AgentSandbox.load(session.dump(key), key, tools, **worker).close()


@pytest.mark.parametrize("paused", [False, True])
def test_a_dropped_session_takes_its_worker_along(worker, paused):
    session = AgentSandbox({"t": lambda: 1}, **worker)
    if paused:
        session.start("await t()")
    pid = session.worker_pid
    assert _alive(pid)
    del session
    gc.collect()
    assert _gone([pid])


HOST = """
import sys, time
from gloveport import AgentSandbox
sessions = [AgentSandbox({"t": lambda: time.sleep(60)}, engine=sys.argv[1]) for _ in range(3)]
sessions[1].start("await t()")
import threading
threading.Thread(target=sessions[2].execute, args=("for (;;);",), daemon=True).start()
time.sleep(0.2)
print(*(s.worker_pid for s in sessions), flush=True)
time.sleep(60)
"""


def test_a_killed_host_leaves_no_worker(worker):
    host = subprocess.Popen([sys.executable, "-c", HOST, worker["engine"]], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in host.stdout.readline().split()]
    family = [*pids, *_descendants(host.pid)]
    assert len(pids) == 3
    assert all(_alive(pid) for pid in family)
    host.kill()
    host.wait()
    host.stdout.close()
    assert _gone(family)


def test_the_interpreter_ends_quietly_with_sessions_open(worker):
    script = (
        f"from gloveport import AgentSandbox\ns = AgentSandbox({{'t': lambda: 1}}, **{worker!r})\n"
        "s.start('await t()')\nprint(s.worker_pid)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert _gone([int(done.stdout)])


def test_importing_is_light():
    script = (
        "import sys; import gloveport;"
        "print(len([m for m in sys.modules if m.split('.')[0] in ('asyncio', 'wasmtime', 'msgspec', 'anyio')]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_a_session_without_inline_never_loads_the_engine_into_the_host(worker):
    script = (
        "import sys; from gloveport import AgentSandbox\n"
        f"with AgentSandbox({{}}, **{worker!r}) as s: s.run('return 1')\nprint('wasmtime' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ── leaks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _count():
    gc.collect()
    return (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(_descendants(os.getpid())),
        len([path for path in Path(tempfile.gettempdir()).iterdir() if "gloveport" in path.name]),
    )


def _settled(before, slack=4):
    deadline = time.monotonic() + 30
    while True:
        now = _count()
        if all(n <= b + slack for b, n in zip(before, now, strict=True)):
            return True, before, now
        if time.monotonic() > deadline:
            return False, before, now
        time.sleep(0.2)


def test_a_thousand_sessions_leave_nothing(isolation):
    def one(i):
        with AgentSandbox({"t": lambda x: x}, isolation=isolation, timeout=0.2 if i % 50 == 49 else 30) as session:
            if i % 50 == 49:
                session.execute("for (;;);")
            elif i % 10 == 9:
                session.start("await t(1)")
            else:
                session.run("return await t(1)")

    for i in range(60):
        one(i)
    before = _count()
    for i in range(334):
        one(i)
    settled, *counts = _settled(before)
    assert settled, counts


def test_ten_thousand_runs_leave_nothing(isolation):
    with AgentSandbox({"t": lambda x: x}, isolation=isolation) as session:
        session.run("return await t(1)")
        before = _count()
        rss = _memory()
        for i in range(3334):
            session.execute("return await t(1)" if i % 2 else "console.log('x'); return 1")
        settled, *counts = _settled(before)
        assert settled, counts
        assert _memory() - rss < 48 * 1024 * 1024  # the journal may take 8 MiB


def test_async_sessions_leave_nothing(worker):
    import asyncio

    async def echo(x):
        return x

    async def one():
        async with AsyncAgentSandbox({"echo": echo, "now": lambda: 1}, **worker) as session:
            await session.run("await now(); return await echo(1)")

    for _ in range(3):
        asyncio.run(one())
    before = _count()
    for _ in range(50 if worker["engine"] == "wasm" else 12):
        asyncio.run(one())
    settled, *counts = _settled(before)
    assert settled, counts


def _memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _gone(pids):
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _descendants(root):
    from gloveport.bench.probes import descendants

    return descendants(root)


@pytest.mark.parametrize("enabled", [True, False])
def test_python_without_a_gil_is_refused(monkeypatch, enabled):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    if enabled:
        AgentSandbox({}).close()
        return
    with pytest.raises(EngineUnavailableError, match="PYTHON_GIL=1"):
        AgentSandbox({})
