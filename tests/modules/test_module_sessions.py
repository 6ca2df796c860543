"""Sessions of modules: opening and closing, state, overlap, cancellation, what they leave behind."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import anyio
import pytest

from gloveport import (
    TypeScriptSandboxError,
    TypeScriptSandboxExecutionError,
    TypeScriptSandboxSession,
    TypeScriptSandboxTimeoutError,
    TypeScriptSandboxUnavailableError,
)

from .conftest import opened

BACKENDS = ["asyncio", *(["trio"] if importlib.util.find_spec("trio") else [])]

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request):
    return request.param


async def ended(pid):
    with anyio.fail_after(20):
        while alive(pid):
            await anyio.sleep(0.01)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_session_opens_runs_and_closes():
    session = TypeScriptSandboxSession()
    assert not session.is_open
    assert session.workspace is None
    async with session:
        assert session.is_open
        path, pid = session.workspace, session._worker.pid
        assert path.is_dir()
        assert (await session.run_module("1")).value == 1
    assert not session.is_open
    assert session.workspace is None
    assert not path.exists()
    await ended(pid)
    with pytest.raises(TypeScriptSandboxError, match="closed"):
        await session.run_module("1")
    async with session:
        assert (await session.run_module("2")).value == 2
    await session.close()


async def test_it_cannot_be_entered_twice():
    async with TypeScriptSandboxSession() as session:
        with pytest.raises(TypeScriptSandboxError, match="open already"):
            await session.__aenter__()
        assert (await session.run_module("1")).value == 1


async def test_state_stays_until_reset():
    async with TypeScriptSandboxSession() as session:
        await session.run_module("globalThis.n = 1; Array.prototype.mine = 2")
        assert (await session.run_module("[++n, [].mine]")).value == [2, 2]
        (session.workspace / "file").write_text("kept")
        path = session.workspace
        await session.reset()
        result = await session.run_module("[typeof n, typeof [].mine, Deno.readTextFileSync('file')]")
        assert result.value == ["undefined", "undefined", "kept"]
        assert not result.state_lost  # it was asked for
        assert session.workspace == path
        (path / "later").write_text("seen")
        assert (await session.run_module("Deno.readTextFileSync('/workspace/later')")).value == "seen"


async def test_files_move_to_the_worker_that_replaces_one():
    async with TypeScriptSandboxSession() as session:
        (session.workspace / "folder").mkdir()
        (session.workspace / "folder" / "a.txt").write_text("a")
        path = session.workspace
        assert (await session.run_module("Deno.exit(1)")).exit_code == 1
        assert (await session.run_module("Deno.readTextFileSync('folder/a.txt')")).value == "a"
        assert session.workspace == path


async def test_sessions_share_nothing():
    async with TypeScriptSandboxSession() as one, TypeScriptSandboxSession() as two:
        leave = (
            "globalThis.mine = 1; String.prototype.mine = 1; try { localStorage.mine = 1 } catch {}\n"
            "try { await caches.open('mine') } catch {}\nglobalThis.channel = new BroadcastChannel('x'); channel.postMessage('mine'); 1"
        )
        listen = "globalThis.got = []; new BroadcastChannel('x').onmessage = (e) => got.push(e.data); 1"
        assert (await two.run_module(listen)).value == 1
        assert (await one.run_module(leave)).value == 1
        look = (
            "await new Promise(r => setTimeout(r, 50)); let stored = 0; try { stored = localStorage.length } catch {}\n"
            "export default () => [typeof mine, typeof ''.mine, stored, got]"
        )
        assert (await two.run_module(look)).value == ["undefined", "undefined", 0, []]
        assert one.workspace != two.workspace


async def test_calls_of_one_session_queue_and_their_timeouts_do_not_count_that():
    results = []
    async with TypeScriptSandboxSession() as session:

        async def call(timeout):
            results.append(await session.run_module("await new Promise(r => setTimeout(r, 250)); 1", timeout=timeout))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call, 0.9)
    assert [result.value for result in results] == [1] * 4


async def test_a_busy_session_can_refuse():
    async with TypeScriptSandboxSession(busy="error") as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run_module, "await new Promise(r => setTimeout(r, 400)); 1")
        await anyio.sleep(0.15)
        with pytest.raises(TypeScriptSandboxError, match="busy"):
            await session.run_module("1")


async def test_parallel_sessions_do_not_wait_for_each_other():
    count, nap = 20, 0.2
    sessions = [TypeScriptSandboxSession() for _ in range(count)]
    results = []

    async def call(session):
        results.append(await session.run_module(f"await new Promise(r => setTimeout(r, {nap * 1000})); 1", timeout=20))

    try:
        for session in sessions:
            await session.__aenter__()
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                tasks.start_soon(call, session)
        took = time.monotonic() - began
    finally:
        for session in sessions:
            await session.close()
    assert [result.value for result in results] == [1] * count
    assert took < count * nap / 2


async def test_a_looping_neighbour_does_not_stop_a_session():
    async with (
        TypeScriptSandboxSession() as loops,
        TypeScriptSandboxSession() as calm,
        anyio.create_task_group() as tasks,
    ):
        over = []

        async def loop():
            over.append((await loops.run_module("while (true) {}", timeout=1.5)).exit_reason)

        tasks.start_soon(loop)
        await anyio.sleep(0.1)
        for number in range(10):
            assert (await calm.run_module(f"{number}", timeout=20)).value == number
        assert not over  # all ten were done while the neighbour was still looping
    assert over == ["timeout"]


async def test_the_loop_goes_on_during_a_call():
    ticks = 0
    async with TypeScriptSandboxSession() as session, anyio.create_task_group() as tasks:

        async def tick():
            nonlocal ticks
            while True:
                await anyio.sleep(0.01)
                ticks += 1

        tasks.start_soon(tick)
        await session.run_module("const end = Date.now() + 300; while (Date.now() < end); 1")
        tasks.cancel_scope.cancel()
    assert ticks > 5


async def test_cancelling_a_call_ends_its_worker():
    async with TypeScriptSandboxSession() as session:
        pid = session._worker.pid
        with anyio.move_on_after(0.2) as scope:
            await session.run_module("globalThis.x = 1; while (true) {}", timeout=60)
        assert scope.cancelled_caught
        await ended(pid)
        result = await session.run_module("typeof x")
        assert (result.value, result.state_lost) == ("undefined", True)


async def test_cancelling_in_the_queue_harms_nobody():
    async with TypeScriptSandboxSession() as session, anyio.create_task_group() as tasks:
        results = []

        async def first():
            results.append(await session.run_module("await new Promise(r => setTimeout(r, 300)); 1"))

        tasks.start_soon(first)
        await anyio.sleep(0.1)
        with anyio.move_on_after(0.05):
            await session.run_module("2")
    assert [result.value for result in results] == [1]


async def test_closing_ends_a_call_that_is_under_way():
    caught = []
    session = TypeScriptSandboxSession()
    await session.__aenter__()

    async def call():
        try:
            await session.run_module("while (true) {}", timeout=60)
        except TypeScriptSandboxError as error:
            caught.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        tasks.start_soon(call)
        await anyio.sleep(0.2)
        with anyio.fail_after(20):
            await session.close()
    assert len(caught) == 2
    assert "closed" in caught[0]


async def test_a_worker_that_was_killed_is_replaced():
    async with TypeScriptSandboxSession() as session:
        await session.run_module("globalThis.x = 1")
        os.kill(session._worker.pid, 9)
        with anyio.fail_after(20):
            while not session._worker.hung_up:  # its threads end one after the other
                await anyio.sleep(0.01)
        result = await session.run_module("typeof x")
        assert (result.value, result.state_lost) == ("undefined", True)


async def test_run_script_gives_values_and_raises():
    async with TypeScriptSandboxSession() as session:
        assert await session.run_script("export default ({ a }) => a + 1", inputs={"a": 1}) == 2
        with pytest.raises(TypeScriptSandboxExecutionError, match="no") as thrown:
            await session.run_script("throw new TypeError('no')")
        assert not isinstance(thrown.value, TypeScriptSandboxTimeoutError)
        assert thrown.value.result.error_type == "TypeError"
        with pytest.raises(TypeScriptSandboxExecutionError) as own:
            await session.run_script("throw Object.assign(new Error('x'), { name: 'TimeoutError' })")
        assert not isinstance(own.value, TypeScriptSandboxTimeoutError)
        with pytest.raises(TypeScriptSandboxTimeoutError):
            await session.run_script("while (true) {}", timeout=0.2)


async def test_inputs():
    async with TypeScriptSandboxSession() as session:
        rows = [{"a": 1}, {"a": 2}]
        total = "rows.map(({ a }: { a: number }) => a).join()"
        assert (await session.run_module(total, inputs={"rows": rows})).value == "1,2"
        module = "export default function ({ rows, more }) { return [rows.length, more, arguments.length] }"
        assert (await session.run_module(module, inputs={"rows": rows, "more": None})).value == [2, None, 1]
        assert (await session.run_module("const rows = 3; rows", inputs={"rows": rows})).value == 3
        assert (await session.run_module("typeof rows")).value == "undefined"
        for inputs, error in (
            ({"a b": 1}, ValueError),
            ({"class": 1}, ValueError),
            ({1: 1}, TypeError),
            ([1], TypeError),
        ):
            with pytest.raises(error):
                await session.run_module("1", inputs=inputs)
        with pytest.raises(TypeError):
            await session.run_module("1", inputs={"a": object()})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"allow_package_imports": 1}, TypeError),
        ({"enable_rendering": 1}, TypeError),
        ({"plugins": ["npm:x"]}, ValueError),
        ({"max_old_generation_size_mb": 0}, ValueError),
        ({"max_old_generation_size_mb": True}, TypeError),
        ({"max_memory_mb": 1}, ValueError),
        ({"sandbox": "maybe"}, ValueError),
        ({"busy": "maybe"}, ValueError),
        ({"runtime": object()}, TypeError),
    ],
)
async def test_options_are_checked(options, error):
    with pytest.raises(error):
        TypeScriptSandboxSession(**options)


async def test_arguments_are_checked():
    async with TypeScriptSandboxSession() as session:
        for options in ({"timeout": 0}, {"timeout": float("inf")}, {"timeout": -1}, {"max_output_bytes": 0}):
            with pytest.raises(ValueError):
                await session.run_module("1", **options)
        for options in ({"timeout": True}, {"timeout": "a"}, {"max_output_bytes": 1.5}, {"tools": 5}):
            with pytest.raises(TypeError):
                await session.run_module("1", **options)
        with pytest.raises(TypeError):
            await session.run_module(b"1")
        assert (await session.run_module("1")).value == 1


async def test_a_missing_part_is_a_typed_error(monkeypatch):
    monkeypatch.setattr("gloveport.engines.modules.profile.BUNDLE", Path("/nowhere"))
    session = TypeScriptSandboxSession(max_old_generation_size_mb=77)
    for _ in range(2):
        with pytest.raises(TypeScriptSandboxUnavailableError, match="not built"):
            await session.__aenter__()
        assert not session.is_open


def measured(session):
    pid = session.session._worker.pid
    with open(f"/proc/{pid}/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    gc.collect()
    return {
        "memory": int(fields["VmRSS"].split()[0]),
        "threads": int(fields["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")) if os.getuid() == 0 else 0,
        "own descriptors": len(os.listdir("/proc/self/fd")),
    }


def test_a_thousand_calls_leave_nothing_behind():
    with opened() as session:

        def calls(start, count):
            for number in range(start, start + count):
                source = (
                    f"import {{ join }} from 'node:path';\nconst data = new Array(20_000).fill({number});\n"
                    f"export default async () => [join('a', 'b'), data.length, (await import('node:os')) && {number}]"
                )
                assert session.value(source) == ["a/b", 20_000, number]

        calls(0, 200)
        before = measured(session)
        calls(200, 1000)
        after = measured(session)
    assert after["threads"] <= before["threads"] + 4
    assert after["descriptors"] <= before["descriptors"] + 8
    assert after["own descriptors"] <= before["own descriptors"] + 8
    assert after["memory"] < before["memory"] * 1.5 + 20_000, (before, after)


def test_nothing_is_left_when_the_host_ends(tmp_path):
    """Neither when it forgets to close nor when it is killed; the next one sweeps."""
    script = tmp_path / "host.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, os, sys
            from gloveport import TypeScriptSandboxSession
            async def main():
                session = TypeScriptSandboxSession()
                await session.__aenter__()
                print((await session.run_module("1")).value, session._worker.pid, session.workspace, flush=True)
                if sys.argv[1] == "killed":
                    os.kill(os.getpid(), 9)
            asyncio.run(main())
            """
        )
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    left = {}
    for how in ("killed", "forgot"):
        done = subprocess.run(
            [sys.executable, str(script), how], env=environment, capture_output=True, text=True, timeout=60
        )
        value, pid, _ = done.stdout.split()
        assert value == "1", done.stderr
        end = time.monotonic() + 10
        while alive(int(pid)):
            assert time.monotonic() < end
            time.sleep(0.01)
        left[how] = os.listdir(temporary)
    assert len(left["killed"]) == 1
    assert left["forgot"] == []


def test_a_forked_copy_has_workers_of_its_own():
    with opened() as session:
        assert session.value("globalThis.who = 'parent'; who") == "parent"
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:

                async def child():
                    async with TypeScriptSandboxSession() as own:
                        return (await own.run_module("typeof who")).value

                os.write(writing, anyio.run(child).encode())
            finally:
                os._exit(0)
        os.close(writing)
        end = time.monotonic() + 60
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert os.read(reading, 100) == b"undefined"
        os.close(reading)
        assert session.value("who") == "parent"


def test_a_session_may_be_used_in_one_loop_after_the_other():
    session = TypeScriptSandboxSession()

    async def use():
        async with session:
            return (await session.run_module("1")).value

    assert [anyio.run(use) for _ in range(3)] == [1, 1, 1]
