"""Handles of machines: across processes, forks, threads and event loops; terminals; pools."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading

import anyio
import pytest

from gloveport import AsyncSandbox, Sandbox
from gloveport.errors import CommandNotFoundError, OtherHostError, RemoteUnsupportedError, SandboxError, ValidationError
from gloveport.machines.estate import Estate, estate
from gloveport.machines.locks import hold, transition

from .conftest import eventually
from .hands import Hand


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    if request.param == "trio":
        pytest.importorskip("trio")
    return request.param


def test_a_terminal_in_the_hands_of_another_process(sandbox):
    """Its size, its echo, its name; and whoever has the id goes on with it."""
    shell = sandbox.commands.start(["sh"], pty=(30, 90))
    shell.stdin.write("stty size; tty\n")
    seen = ""

    def shown():
        nonlocal seen
        follow = sandbox.commands.attach(shell.id)
        for _, text in follow.output():
            seen += text
            if "/dev/pts/" in seen:
                return True
        return False

    eventually(shown)
    assert "30 90" in seen
    hand = Hand()
    try:
        stdout, code = hand("attach", sandbox.id, shell.id)["ok"]
    finally:
        hand.close()
    assert code == 5
    assert "33 99" in stdout
    assert "30 90" in stdout  # what was before it came is there, too
    result = shell.wait()
    assert result.exit_code == 5
    assert result.stderr == ""
    with pytest.raises(CommandNotFoundError, match="commands.list"):
        sandbox.commands.attach(10_000)


def test_after_a_fork_of_the_process(sandbox):
    """Parent and child share no connection and no database handle."""
    sandbox.commands.run("true")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = [sandbox.commands.run(f"echo child {n}").stdout for n in range(20)]
            os.write(write, b"fine" if said == [f"child {n}\n" for n in range(20)] else b"wrong")
            sandbox.update(metadata={"by": "child"})
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    assert [sandbox.commands.run(f"echo parent {n}").stdout for n in range(20)] == [f"parent {n}\n" for n in range(20)]
    with open(read) as file:
        assert file.read() == "fine"
    os.waitpid(child, 0)
    assert sandbox.get_info().metadata == {"by": "child"}


def test_a_fork_while_another_thread_uses_the_list(sandbox):
    registry, inside, done = estate().registry, threading.Event(), threading.Event()

    def use():
        with registry._using():
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=use)
    thread.start()
    inside.wait(60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)  # ends it, should it wait for a thread that it does not have
        try:
            os._exit(0 if registry.get(sandbox.id) else 1)
        finally:
            os._exit(2)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_does_not_keep_the_locks_of_a_sweep(sandbox, monkeypatch):
    children, sweep_one = [], Estate._sweep_one

    def forks(self, id):  # noqa: A002
        if id == sandbox.id:
            children.append(os.fork())
            if children[-1] == 0:
                signal.pause()
        return sweep_one(self, id)

    monkeypatch.setattr(Estate, "_sweep_one", forks)
    estate().sweep()
    try:
        with transition(estate().root, sandbox.id, timeout=0.5):
            pass
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert len(children) == 1


def test_threads_make_and_delete(state):
    wrong = []

    def life(number):
        try:
            with Sandbox.create(f"thread-{number}", memory_mb=64) as sandbox:
                for turn in range(3):
                    said = sandbox.commands.run(["echo", f"{number} {turn}"]).stdout
                    if said != f"{number} {turn}\n":
                        wrong.append(said)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=life, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_ids_of_elsewhere(sandbox):
    found = estate()
    record = found.record(sandbox.id)
    found.registry.change(sandbox.id, host="elsewhere/12345678")
    try:
        with pytest.raises(OtherHostError, match="elsewhere") as error:
            Sandbox.connect(sandbox.id)
        assert error.value.host == "elsewhere/12345678"
        with pytest.raises(OtherHostError):
            Sandbox.kill_by_id(sandbox.id)
        assert sandbox.id not in [info.id for info in Sandbox.list()]
        assert sandbox.id not in found.sweep()
    finally:
        found.registry.change(sandbox.id, host=record.host)
    assert sandbox.commands.run("echo well").stdout == "well\n"
    for server in ({"base_url": "http://example.com"}, {"api_key": "key"}):
        for call in (
            lambda server=server: Sandbox.create(**server),
            lambda server=server: Sandbox.connect(sandbox.id, **server),
        ):
            with pytest.raises(RemoteUnsupportedError, match="base_url"):
                call()


def test_a_state_directory_of_others_is_refused(tmp_path, monkeypatch):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path / "state"))
    with pytest.raises(SandboxError, match="others may write"):
        Sandbox.create()


def test_pools(state):
    with Sandbox.pool(2, memory_mb=64, env_vars={"A": "pool"}) as pool:
        assert pool.waiting() == 2
        assert Sandbox.list() == [] or all(info.name != "sandbox" for info in Sandbox.list())  # what waits is nobody's
        with pool.create("taken", metadata={"k": "v"}, env_vars={"B": "own"}) as sandbox:
            assert sandbox.commands.run("echo $A $B").stdout == "pool own\n"
            info = sandbox.get_info()
            assert (info.name, info.metadata, info.limits["memory_mb"]) == ("taken", {"k": "v"}, 64)
            eventually(lambda: pool.waiting() == 2)
        kept = pool.create("kept")
    assert kept.commands.run("echo mine").stdout == "mine\n"
    kept.kill()
    assert not [record for record in estate().registry.find() if record.pool]
    with pytest.raises(SandboxError, match="closed"):
        pool.create()
    for wrong in (0, -1, True, 10_000):
        with pytest.raises(ValidationError):
            Sandbox.pool(wrong)
    with pytest.raises(ValidationError):
        Sandbox.pool(1, memory_mb=1)


def test_a_pool_that_cannot_be_filled_leaves_nothing(state, monkeypatch):
    pool = Sandbox.pool(2)
    real, made = pool._draft.create, []

    def create(**changes):
        if made:
            raise SandboxError("no more")
        made.append(real(**changes))
        return made[-1]

    monkeypatch.setattr(pool._draft, "create", create)
    with pytest.raises(SandboxError, match="no more"), pool:
        pass
    assert len(made) == 1
    assert estate().registry.find(pool=pool.id) == []
    held = hold(estate().root, f"pool {pool.id}")
    assert held is not None  # else no other process would ever sweep
    os.close(held)


def late(pool, monkeypatch):
    """Makes the pool's next machine wait for the second of these; the first says that it does."""
    real, begun, go = pool._draft.create, threading.Event(), threading.Event()

    def create(**changes):
        begun.set()
        assert go.wait(30)
        return real(**changes)

    monkeypatch.setattr(pool._draft, "create", create)
    return begun, go


def test_what_is_taken_while_a_pool_is_filled_gets_its_own_clocks(state, monkeypatch):
    armed = []
    real = Estate.rearm
    monkeypatch.setattr(Estate, "rearm", lambda self, record: (armed.append(record.id), real(self, record)))
    with Sandbox.pool(2) as pool:
        begun, go = late(pool, monkeypatch)
        first = pool.create()
        assert begun.wait(30)
        second = pool.create(timeout_seconds=None)
        go.set()
    with first, second:
        assert sorted(armed) == sorted([first.id, second.id])


def test_a_machine_whose_clocks_cannot_be_set_does_not_end_a_pool(state, monkeypatch):
    monkeypatch.setattr("gloveport.machines.estate.transition", functools.partial(transition, timeout=0.2))
    with Sandbox.pool(1) as pool:
        with pool.create() as taken:
            with transition(estate().root, taken.id):
                eventually(lambda: pool.waiting() == 1)
        with pool.create() as other:
            assert other.id != taken.id


def test_a_machine_that_comes_after_a_pool_was_closed_is_deleted(state, monkeypatch):
    pool = Sandbox.pool(1)
    begun, go = late(pool, monkeypatch)
    filling = threading.Thread(target=pool.fill)
    filling.start()
    assert begun.wait(30)
    pool.close()
    go.set()
    filling.join(30)
    assert pool.waiting() == 0
    assert estate().registry.find(pool=pool.id) == []


@pytest.mark.anyio
async def test_the_async_class_has_all_of_it(state):
    async with await AsyncSandbox.create("async", metadata={"of": "async"}) as sandbox:
        assert [info.id for info in await AsyncSandbox.list(metadata={"of": "async"})] == [sandbox.id]
        await sandbox.files.write("/workspace/a", "b")
        shot = await sandbox.snapshot("async-shot")
        assert [found.id for found in await sandbox.snapshots()] == [shot.id]
        (twin,) = await sandbox.fork()
        async with twin, await AsyncSandbox.create(from_snapshot=shot) as old:
            assert await twin.files.read_text("/workspace/a") == await old.files.read_text("/workspace/a") == "b"
        assert await AsyncSandbox.delete_snapshot(shot)
        await sandbox.pause()
        assert sandbox.status == "paused"
        again = await AsyncSandbox.connect(sandbox.id)
        assert again.found == "resumed"
        await AsyncSandbox.update_by_id(sandbox.id, metadata={"of": "other"})
        assert (await sandbox.get_info()).metadata == {"of": "other"}
        assert (await sandbox.usage())["processes"] >= 1
        command = await sandbox.commands.start("echo one; sleep 60")
        async with contextlib.aclosing(command.output()) as output:
            assert await anext(output) == ("stdout", "one\n")
        await command.kill()
        assert (await command.wait()).signal == 9
    assert not await AsyncSandbox.kill_by_id(sandbox.id)


@pytest.mark.anyio
async def test_an_async_pool(state):
    async with AsyncSandbox.pool(1) as pool, await pool.create("job") as sandbox:
        assert (await sandbox.commands.run("echo here")).stdout == "here\n"


@pytest.mark.anyio
async def test_a_create_that_is_cancelled_leaves_nothing(state):
    before = {record.id for record in estate().registry.find()}
    for delay in (0, 0.001, 0.005, 0.01, 0.02, 0.05):
        with anyio.move_on_after(delay):
            await AsyncSandbox.create()
            await anyio.sleep(10)
    made = {record.id for record in estate().registry.find()} - before
    for id in made:  # noqa: A001 (those whose handle was given, and dropped by us)
        assert await AsyncSandbox.kill_by_id(id)
    assert len(made) < 6
