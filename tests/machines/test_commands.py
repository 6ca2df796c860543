"""Commands, blocking and async: what they give, and that nothing of them goes on unseen."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import time

import anyio
import pytest

from gloveport import AsyncSandbox, Sandbox
from gloveport.errors import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    FileNotFoundInSandboxError,
    ValidationError,
)
from gloveport.machines import channel

from .conftest import ADMIN, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


def processes(sandbox, text):
    """How many processes of the machine have this in their command line."""
    script = (
        f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done | grep -v grep | grep -c '{text}'"
    )
    return int(sandbox.commands.run(script).stdout)


def test_shell_and_argv(shared):
    result = shared.commands.run("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code, result.truncated) == ("out\n", "err\n", 3, False)
    assert shared.commands.run(["printf", "%s|", "a b", "$HOME", "*"]).stdout == "a b|$HOME|*|"


def test_where_and_who(shared):
    run = shared.commands.run
    assert run("pwd; id -un; echo $HOME").stdout == "/workspace\nuser\n/home/user\n"
    assert run("pwd", cwd="/tmp").stdout == "/tmp\n"
    if ADMIN:
        assert run("id -un; echo $HOME", user=ADMIN).stdout == "root\n/root\n"
    with pytest.raises(FileNotFoundInSandboxError, match="/nowhere"):
        run("true", cwd="/nowhere")
    with pytest.raises(ValidationError, match="user"):
        run("true", user="stranger")
    for wrong in (
        {"cwd": "relative"},
        {"cwd": "/a/../b"},
        {"user": "a b"},
        {"env": {"A=B": "c"}},
        {"timeout_seconds": 0},
    ):
        with pytest.raises(ValidationError):
            run("true", **wrong)
    for command in ("", [], [""], ["a\0b"], "a\0b", [1]):
        if command != "":
            with pytest.raises(ValidationError):
                run(command)


def test_environment(state):
    with Sandbox.create(env_vars={"GREETING": "hello", "OTHER": "box"}) as sandbox:
        shown = sandbox.commands.run("echo $GREETING $OTHER $CI $TERM", env={"OTHER": "command"}).stdout
        assert shown == "hello command 1 dumb\n"
        assert Sandbox.connect(sandbox.id).commands.run("echo $GREETING").stdout == "hello\n"


def test_nothing_of_the_hosts_environment(shared, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hunter2")
    assert (
        "hunter2"
        not in shared.commands.run("env; cat /proc/1/environ 2>/dev/null; cat /proc/*/environ 2>/dev/null").stdout
    )


def test_programs_that_are_not_there(shared):
    assert shared.commands.run(["no-such-program"]).exit_code == 127
    assert shared.commands.run("no-such-program").exit_code == 127
    assert shared.commands.run(["/etc/passwd"]).exit_code == 126
    assert shared.commands.run("kill -9 $$").exit_code == 137
    assert shared.commands.run("kill -9 $$").signal == 9


def test_what_goes_on_in_the_background_is_not_waited_for(sandbox):
    began = time.monotonic()
    result = sandbox.commands.run("sleep 300 & echo started", timeout_seconds=20)
    assert (result.stdout, result.exit_code, result.timed_out) == ("started\n", 0, False)
    assert time.monotonic() - began < 15
    result = sandbox.commands.run("nohup sh -c 'while :; do sleep 0.1; done' >/dev/null 2>&1 & echo $!")
    pid = result.stdout.strip()
    assert sandbox.commands.run(f"kill -0 {pid} && echo alive").stdout == "alive\n"


def test_a_timeout_ends_the_whole_tree_and_keeps_the_output(sandbox):
    result = sandbox.commands.run(
        "echo partial; (trap '' TERM; while :; do sleep 0.05; echo x >> late; done) & wait", timeout_seconds=1
    )
    assert (result.exit_code, result.timed_out) == (124, True)
    assert result.stdout == "partial\n"
    size = sandbox.files.stat("/workspace/late").size
    time.sleep(0.3)
    assert sandbox.files.stat("/workspace/late").size == size
    assert size > 0  # the control: it had been writing
    assert sandbox.commands.run("echo well").stdout == "well\n"


def test_the_default_timeout_is_told(shared, monkeypatch):
    monkeypatch.setattr("gloveport.host.machines.plans.DEFAULT_COMMAND_SECONDS", 0.3)
    result = shared.commands.run("sleep 60")
    assert result.timed_out and "pass `timeout_seconds`" in result.note
    assert shared.commands.run("sleep 0.6", timeout_seconds=None).ok


def test_check(shared):
    assert shared.commands.run("echo fine", check=True).stdout == "fine\n"
    with pytest.raises(CommandFailedError, match="ended with 4") as failed:
        shared.commands.run("echo before; echo why >&2; exit 4", check=True)
    assert (failed.value.stdout, failed.value.exit_code) == ("before\n", 4)
    assert "why" in str(failed.value)
    with pytest.raises(TimeoutError) as late:
        shared.commands.run("echo so far; sleep 60", timeout_seconds=0.3, check=True)
    assert type(late.value) is CommandTimeoutError
    assert late.value.result.stdout == "so far\n"


@pytest.mark.parametrize(
    "command", ["cat; echo $?", "read -r x; echo 1$?", "python3 -c 'input()' 2>/dev/null; echo $?"]
)
def test_input_is_empty(shared, command):
    result = shared.commands.run(command, timeout_seconds=20)
    assert not result.timed_out
    assert result.stdout.strip()[-1] in "01"


def test_input_that_is_given(shared):
    data = "zeile\n" * 100_000
    result = shared.commands.run("wc -c; cat >/dev/null", stdin=data)
    assert result.stdout.split() == [str(len(data))]
    assert shared.commands.run("true", stdin=data).exit_code == 0  # it reads nothing of it
    assert shared.commands.run("head -c 3", stdin=b"abcdef").stdout == "abc"


def test_output_is_bounded_at_both_ends(shared):
    result = shared.commands.run("echo BEGIN; seq 200000; echo THE ERROR >&2; echo LAST; exit 1")
    assert result.stdout.startswith("BEGIN\n1\n2\n") and result.stdout.endswith("\n200000\nLAST\n")
    assert result.truncated and result.stdout_skipped > 500_000 and result.stderr == "THE ERROR\n"
    assert f"[truncated: {result.stdout_skipped} bytes]" in result.stdout
    whole = shared.commands.run("seq 200000", max_output_bytes=4 << 20)
    assert not whole.truncated and whole.stdout.count("\n") == 200_000
    long = shared.commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert long.truncated and len(long.stdout) < 300_000


def test_bytes_that_are_no_text(shared):
    result = shared.commands.run(r"printf 'a\360b\n'; exit 4")
    assert (result.stdout, result.exit_code) == ("a\ufffdb\n", 4)
    told = []
    result = shared.commands.run(
        r"printf '\342\202'; sleep 0.3; printf '\254\n'; printf 'nul:\000:\n'", on_stdout=told.append
    )
    assert result.stdout == "".join(told) == "€\nnul:\0:\n"


def test_output_as_it_comes(shared):
    seen = []
    result = shared.commands.run(
        "echo one; sleep 0.5; echo two; echo bad >&2",
        on_stdout=lambda text: seen.append((text, time.monotonic())),
        on_stderr=lambda text: seen.append((text, time.monotonic())),
    )
    texts = [text for text, _ in seen]
    assert texts[0] == "one\n" and sorted(texts) == ["bad\n", "one\n", "two\n"]
    assert seen[1][1] - seen[0][1] > 0.2
    assert result.stdout == "one\ntwo\n"


def test_a_callback_that_raises_ends_the_command(sandbox):
    def broken(text):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        sandbox.commands.run("echo go; exec sleep 4321", on_stdout=broken)
    eventually(lambda: processes(sandbox, "sleep 4321") == 0)


def test_a_command_in_the_background(sandbox):
    command = sandbox.commands.start("echo began; read line; echo got $line; exit 5", stdin=True, label="job")
    assert command.pid > 1
    assert [info.state for info in sandbox.commands.list() if info.id == command.id] == ["running"]
    with pytest.raises(TimeoutError):
        command.wait(0.2)
    assert command.stdin.write("hello\n")
    assert command.wait(20).stdout == "began\ngot hello\n"
    assert command.wait().exit_code == 5
    with pytest.raises(CommandFailedError):
        command.wait(check=True)
    again = Sandbox.connect(sandbox.id).commands.attach(command.id)
    assert again.wait(20) == command.wait()
    with pytest.raises(CommandNotFoundError):
        sandbox.commands.attach(987654)


def test_the_end_of_the_input(sandbox):
    command = sandbox.commands.start("cat; echo end", stdin=True)
    command.stdin.write(b"x" * 300_000)
    command.stdin.close()
    assert command.wait(20).stdout.endswith("xend\n")
    assert not command.stdin.write("more")


def test_output_of_a_command_in_the_background(sandbox):
    command = sandbox.commands.start("for i in 1 2 3; do echo $i; sleep 0.1; done; echo e >&2")
    told = list(command.output())
    assert "".join(text for name, text in told if name == "stdout") == "1\n2\n3\n"
    assert ("stderr", "e\n") in told
    assert command.wait().exit_code == 0
    assert "".join(text for name, text in command.output() if name == "stdout") == "1\n2\n3\n"  # from the beginning


def test_signals(sandbox):
    command = sandbox.commands.start("trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
    for _ in command.output():
        break
    command.kill("TERM", tree=False)
    result = command.wait(20)
    assert (result.stdout, result.exit_code) == ("ready\ncaught\n", 9)
    command.kill()  # it has ended: no error
    with pytest.raises(ValidationError):
        command.kill("SIGNOTHING")
    other = sandbox.commands.start("sleep 1234 & sleep 1235")
    eventually(lambda: processes(sandbox, "sleep 123[45]") >= 2)
    other.kill()
    assert other.wait(20).signal == 9
    eventually(lambda: processes(sandbox, "sleep 123[45]") == 0)


def test_interruption_ends_the_command(sandbox, monkeypatch):
    """As by Ctrl-C in the main thread."""
    import _thread

    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.commands.run("exec sleep 5432", timeout_seconds=60)
    eventually(lambda: processes(sandbox, "sleep 5432") == 0)
    assert sandbox.commands.run("echo well").ok


def test_threads_at_once(shared):
    results = {}

    def work(n):
        results[n] = shared.commands.run(f"sleep 0.1; echo {n}; exit {n}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: (r.stdout, r.exit_code) for n, r in results.items()} == {n: (f"{n}\n", n) for n in range(12)}


async def test_async(state):
    async with await AsyncSandbox.create("async", env_vars={"A": "1"}) as sandbox:
        seen = []

        async def keep(text):
            await anyio.sleep(0)
            seen.append(text)

        result = await sandbox.commands.run("echo $A; exit 2", on_stdout=keep)
        assert (result.stdout, result.exit_code, seen) == ("1\n", 2, ["1\n"])
        command = await sandbox.commands.start("read x; echo $x", stdin=True)
        await command.stdin.write("in\n")
        assert (await command.wait(20)).stdout == "in\n"
        assert [text async for _, text in command.output()] == ["in\n"]
        assert [info.id for info in await sandbox.commands.list()][0] == command.id
        assert (await sandbox.commands.attach(command.id)).id == command.id
        with pytest.raises(TimeoutError):
            await (await sandbox.commands.start("sleep 60")).wait(0.2)


async def test_async_commands_run_side_by_side(state):
    async with await AsyncSandbox.create() as sandbox:
        began = time.monotonic()
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(sandbox.commands.run, "sleep 0.5")
        assert time.monotonic() - began < 8 * 0.5


async def test_cancelling_ends_the_command(sandbox):
    held = await AsyncSandbox.connect(sandbox.id)
    with anyio.move_on_after(0.5) as scope:
        await held.commands.run("exec sleep 6543")
    assert scope.cancelled_caught
    eventually(lambda: processes(sandbox, "sleep 6543") == 0)


@pytest.mark.parametrize("how", ["run", "start"])
@pytest.mark.parametrize("backend", ["asyncio", "trio", "a task of asyncio"])
def test_cancelled_before_it_is_known_to_have_started(sandbox, monkeypatch, backend, how):
    """The request is on its way, the answer not yet read: nobody else would ever know of the command."""

    async def reads_nothing(line, look):
        waits.set()
        await anyio.sleep_forever()

    async def main():
        nonlocal waits
        waits = anyio.Event()
        machine = await AsyncSandbox.connect(sandbox.id)
        await machine.commands.run("true")
        ask = functools.partial(getattr(machine.commands, how), f"exec sleep 76{len(backend)}")
        with monkeypatch.context() as patched:
            patched.setattr(channel, "_receive_async", reads_nothing)
            if backend.startswith("a task"):
                task = asyncio.ensure_future(ask())
                await waits.wait()
                patched.undo()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await waits.wait()
                patched.undo()
                tasks.cancel_scope.cancel()

    waits = None
    anyio.run(main, backend=backend.split()[-1])
    assert processes(sandbox, f"sleep 76{len(backend)}") == 0


@pytest.mark.parametrize("how", ["run", "start"])
def test_interrupted_before_it_is_known_to_have_started(sandbox, monkeypatch, how):
    receive = channel._receive

    def interrupted(line, wait):
        monkeypatch.setattr(channel, "_receive", receive)
        raise KeyboardInterrupt

    sandbox.commands.run("true")
    monkeypatch.setattr(channel, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(sandbox.commands, how)("exec sleep 7654")
    assert processes(sandbox, "sleep 7654") == 0


def test_one_that_cannot_be_started_says_so_at_once(sandbox):
    """Nothing is owed then."""
    began = time.monotonic()
    for _ in range(5):
        with pytest.raises(FileNotFoundInSandboxError):
            sandbox.commands.start("true", cwd="/nowhere")
    assert time.monotonic() - began < channel._OWED


def test_the_same_handle_in_several_event_loops(sandbox):
    held = anyio.run(AsyncSandbox.connect, sandbox.id)
    for backend in ("asyncio", "trio", "asyncio"):

        async def run():
            return (await held.commands.run("echo here")).stdout

        assert anyio.run(run, backend=backend) == "here\n"


def test_a_result_in_pydantic(shared):
    pydantic = pytest.importorskip("pydantic")
    plain = shared.commands.run("echo hi")
    late = shared.commands.run("echo hi; sleep 60", timeout_seconds=0.3)
    for adapter in (pydantic.TypeAdapter(object), pydantic.TypeAdapter(type(plain))):
        assert json.loads(adapter.dump_json(plain)) == {
            "stdout": "hi\n",
            "stderr": "",
            "exit_code": 0,
            "truncated": False,
        }
        assert json.loads(adapter.dump_json(late)) == {
            "stdout": "hi\n",
            "stderr": "",
            "exit_code": 124,
            "truncated": False,
            "timed_out": True,
            "note": "stopped after 0.3 s",
        }
    assert set(pydantic.TypeAdapter(type(plain)).json_schema(mode="validation")["properties"]) >= {
        "stdout",
        "exit_code",
    }


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_limit_of_output(shared, stream):
    """Whoever asks for a limit gets what came before it, and the command is ended."""
    command = f"i=0; while :; do echo line $i; i=$((i+1)); done {stream}"
    result = shared.commands.run(command, timeout_seconds=60, output_limit=20_000)
    assert (result.limit, result.timed_out, result.ok) == ("output", False, False)
    assert "output" in result.note
    assert (result.stdout or result.stderr).startswith("line 0\nline 1\n")
    with pytest.raises(CommandFailedError, match="output"):
        shared.commands.run(command, output_limit=20_000, check=True)
    control = shared.commands.run("head -c 19999 /dev/zero", output_limit=20_000)
    assert (control.limit, control.exit_code, len(control.stdout)) == (None, 0, 19_999)
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ValidationError, match="output_limit"):
            shared.commands.run("true", output_limit=wrong)


async def test_a_limit_of_output_async(shared):
    sandbox = await AsyncSandbox.connect(shared.id)
    result = await sandbox.commands.run("yes", output_limit=10_000)
    assert result.limit == "output"
    started = await sandbox.commands.start("yes", output_limit=10_000)
    assert (await started.wait()).limit == "output"


def slowly(seconds=15):
    """Takes output more slowly than it comes, but not for ever: where nothing else ends it, this does."""
    end = time.monotonic() + seconds

    def take(_):
        assert time.monotonic() < end, "nobody has ended it"
        time.sleep(0.01)

    return take


def test_a_wait_ends_while_output_comes_and_comes(sandbox):
    command = sandbox.commands.start("yes")
    with pytest.raises(TimeoutError):
        command.wait(0.5, on_data=slowly())
    command.kill()
    got = bytearray()
    control = sandbox.commands.start("head -c 5000000 /dev/zero")
    assert control.wait(30, on_data=lambda piece: got.extend(piece[1])).exit_code == 0
    assert len(got) == 5_000_000


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_others_have_their_turn_while_output_comes_and_comes(sandbox, backend):
    async def main():
        ticks, seen = 0, 0

        def counted(text):
            nonlocal seen
            seen += len(text)

        async def tick():
            nonlocal ticks
            while True:
                await anyio.sleep(0.01)
                ticks += 1

        machine = await AsyncSandbox.connect(sandbox.id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            with anyio.move_on_after(1) as scope:
                await machine.commands.run("yes", timeout_seconds=None, on_stdout=slowly())
            assert scope.cancelled_caught
            assert ticks > 2
            control = await machine.commands.run("head -c 5000000 /dev/zero", on_stdout=counted)
            tasks.cancel_scope.cancel()
        assert control.exit_code == 0
        assert seen == 5_000_000

    anyio.run(main, backend=backend)
