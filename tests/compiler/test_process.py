"""The resident process: it dies, hangs, lies, is forked and cancelled, and the sessions do not notice."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gloveport.engines.toolbox import Toolbox
from gloveport.engines.toolbox.connection import Child, Connection, ToolboxTimeout
from gloveport.engines.toolbox.process import spawn as real_spawn
from gloveport.engines.toolbox.process import spawn_plain
from gloveport.errors import CompileError, EngineUnavailableError, SandboxUnavailableError
from gloveport.policy import SandboxMode

TOO_DEEP = "x = " + "f(x => " * 5000 + "1" + ")" * 5000


both_modes = pytest.mark.parametrize("own", ["off", "require"], indirect=True)


class CountingSpawn:
    """Starts processes as the toolbox does, and keeps their ids."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def __call__(self, argv: Sequence[str], readable: Sequence[Path], sandbox: SandboxMode) -> Child:
        child = real_spawn(argv, readable, sandbox)
        self.pids.append(child.pid)
        return child


@pytest.fixture
def spawn() -> CountingSpawn:
    return CountingSpawn()


@pytest.fixture
def own(spawn: CountingSpawn, request: pytest.FixtureRequest) -> Iterator[Toolbox]:
    """A toolbox that the test may damage, without a jail unless it asks. Afterwards none of its processes is left."""
    with Toolbox(sandbox=getattr(request, "param", "off"), spawn=spawn) as toolbox:
        yield toolbox
    assert not any(alive(pid) for pid in spawn.pids)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_soon(pid: int, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def resident(toolbox: Toolbox) -> int:
    """The process id of a toolbox that has started."""
    toolbox.module_kind("export default 1")
    assert toolbox.pid is not None
    return toolbox.pid


# ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@both_modes
def test_it_starts_on_demand_and_once(own: Toolbox, spawn: CountingSpawn) -> None:
    assert spawn.pids == [] and own.pid is None
    for number in range(5):
        own.compile(f"return {number}")
    assert spawn.pids == [own.pid]


@both_modes
def test_it_can_be_started_before_it_is_wanted(own: Toolbox, spawn: CountingSpawn) -> None:
    own.prepare()
    own.prepare()
    while own.pid is None:
        time.sleep(0.01)
    first = own.pid
    own.compile("let a")
    own.prepare()
    assert spawn.pids == [first] == [own.pid]


def test_what_fails_in_the_background_fails_for_the_request(tmp_path: Path) -> None:
    toolbox = Toolbox(sandbox="off", bundle=tmp_path / "none.js")
    toolbox.prepare()
    with pytest.raises(EngineUnavailableError, match="not built"):
        toolbox.compile("let a")


@both_modes
def test_it_is_restarted_after_it_died(own: Toolbox, spawn: CountingSpawn) -> None:
    first = resident(own)
    os.kill(first, signal.SIGKILL)
    assert own.compile("let a").names == ("a",)
    assert own.pid != first and len(spawn.pids) == 2


@both_modes
def test_a_source_that_crashes_it_fails_alone(own: Toolbox, spawn: CountingSpawn) -> None:
    resident(own)
    with pytest.raises(CompileError, match="crashes the compiler"):
        own.compile(TOO_DEEP)
    assert own.compile("let a").names == ("a",)
    started = len(spawn.pids)
    with pytest.raises(CompileError, match="crashes the compiler"):
        own.compile(TOO_DEEP)
    assert len(spawn.pids) == started  # known by now: not tried again


@both_modes
def test_a_source_that_hangs_it_fails_alone(own: Toolbox) -> None:
    pid = resident(own)
    os.kill(pid, signal.SIGSTOP)  # as a parser that does not end
    with pytest.raises(CompileError, match=r"longer than 0\.3 s") as caught:
        own.compile("let slow", timeout=0.3)
    assert (caught.value.line, caught.value.column) == (0, 0)
    assert not alive(pid)
    assert own.compile("let slow").names == ("slow",)  # may have been the machine: tried again


def test_others_do_not_wait_for_a_source_that_hangs(own: Toolbox) -> None:
    pid = resident(own)
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        stuck = threads.submit(own.compile, "let stuck", timeout=60)
        while not own._resident._lock.locked():
            time.sleep(0.001)
        assert own.compile("let other").names == ("other",)
        assert not stuck.done()
        os.kill(pid, signal.SIGCONT)
        assert stuck.result().names == ("stuck",)


@both_modes
def test_closing(own: Toolbox) -> None:
    pid = resident(own)
    own.close()
    assert not alive(pid)
    with pytest.raises(EngineUnavailableError, match="closed"):
        own.compile("let never_seen")
    own.close()


@both_modes
def test_closing_ends_a_request_in_progress(own: Toolbox) -> None:
    os.kill(resident(own), signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        stuck = threads.submit(own.compile, "let stuck", timeout=60)
        while not own._resident._lock.locked():
            time.sleep(0.001)
        own.close()
        with pytest.raises(EngineUnavailableError, match="closed"):
            stuck.result(timeout=30)


@both_modes
def test_a_forked_child_has_its_own(own: Toolbox) -> None:
    pid = resident(own)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the other process
        try:
            names = own.compile("let in_child").names
            os.write(writer, json.dumps([names, own.pid]).encode())
            own.close()
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answers:
        names, child_pid = json.loads(answers.read())
    os.waitpid(child, 0)
    assert names == ["in_child"] and child_pid != pid
    assert alive(pid) and own.pid == pid
    assert own.compile("let in_parent").names == ("in_parent",)
    assert not alive(child_pid)


@pytest.mark.parametrize("sandbox", ["off", "require"])
@pytest.mark.parametrize("how", ["SIGKILL", "exit"])
def test_it_dies_with_the_host(how: str, sandbox: str) -> None:
    program = (
        "import os, sys, time\nfrom gloveport.engines.toolbox import Toolbox\n"
        "t = Toolbox(sandbox=sys.argv[1]); t.compile('let a')\n"
        "if os.fork() == 0: time.sleep(60); os._exit(0)\n"  # a forked copy must not keep it alive
        "print(t.pid, flush=True)\nsys.stdin.read(1)\n"
    )
    host = subprocess.Popen(
        [sys.executable, "-c", program, sandbox], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert host.stdin and host.stdout
    with host:
        pid = int(host.stdout.readline())
        assert alive(pid)
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()
        try:
            if how == "SIGKILL":
                host.kill()
            else:
                host.stdin.close()
            assert gone_soon(pid)
        finally:
            for child in map(int, children):  # the forked copy; all others are gone
                if child != pid and alive(child):
                    os.kill(child, signal.SIGKILL)


# ── use by many ──────────────────────────────────────────────────────────────────────────────────────────────────────


@both_modes
def test_many_threads(own: Toolbox, spawn: CountingSpawn) -> None:
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: own.compile(f"let v{n}: number = {n}").names, range(200)))
    assert results == [(f"v{n}",) for n in range(200)]
    assert len(spawn.pids) <= 3


def test_many_tasks_on_several_loops(own: Toolbox) -> None:
    async def many(loop: int) -> list[tuple[str, ...]]:
        compiled = await asyncio.gather(*(own.compile_async(f"let v{loop}_{n}") for n in range(40)))
        return [each.names for each in compiled]

    with ThreadPoolExecutor(3) as threads:
        for loop, names in enumerate(threads.map(lambda loop: asyncio.run(many(loop)), range(3))):
            assert names == [(f"v{loop}_{n}",) for n in range(40)]


@both_modes
def test_the_async_form_gives_the_same(own: Toolbox) -> None:
    async def main() -> None:
        assert await own.compile_async("let a: 1 = 1") == own.compile("let a: 1 = 1")  # starts in a thread
        assert await own.compile_async("let b: 1 = 1") == Toolbox.compile(own, "let b: 1 = 1")
        large = "let c: 1 = 1 //" + "x" * 100_000
        assert await own.compile_async(large) == own.compile(large)
        with pytest.raises(CompileError) as caught:
            await own.compile_async("let d = ;")
        assert (caught.value.line, caught.value.column) == (1, 9)
        with pytest.raises(CompileError, match="bytes"):
            await own.compile_async("x" * (1 << 21))
        with pytest.raises(CompileError, match="crashes the compiler"):
            await own.compile_async(TOO_DEEP)
        assert (await own.compile_async("let e")).names == ("e",)

    asyncio.run(main())


def test_the_loop_runs_while_the_compiler_is_slow(own: Toolbox) -> None:
    async def main() -> None:
        pid = resident(own)
        os.kill(pid, signal.SIGSTOP)
        slow = asyncio.create_task(own.compile_async("let slow"))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not slow.done()
        # Blocking the loop for another one must not wait for `slow`, which needs the loop.
        assert own.compile("let other").names == ("other",)
        assert (await own.compile_async("let third")).names == ("third",)
        os.kill(pid, signal.SIGCONT)
        assert (await slow).names == ("slow",)
        assert own.pid == pid

    asyncio.run(main())


@both_modes
def test_async_timeouts_and_cancellation(own: Toolbox) -> None:
    async def main() -> None:
        os.kill(resident(own), signal.SIGSTOP)
        with pytest.raises(CompileError, match=r"longer than 0\.2 s"):
            await own.compile_async("let slow", timeout=0.2)
        first = resident(own)
        os.kill(first, signal.SIGSTOP)
        task = asyncio.create_task(own.compile_async("let cancelled"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(first)
        assert (await own.compile_async("let after")).names == ("after",)

    asyncio.run(main())


# ── the cache ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sources_are_compiled_once(own: Toolbox) -> None:
    first = own.compile("let a")
    with pytest.raises(CompileError) as wrong:
        own.compile("let a = ;")
    os.kill(resident(own), signal.SIGSTOP)  # nobody would answer
    assert own.compile("let a") is first
    with pytest.raises(CompileError) as again:
        own.compile("let a = ;", timeout=0.2)
    assert str(again.value) == str(wrong.value) and again.value.line == 1
    with pytest.raises(CompileError, match="longer"):
        own.compile("let a ", timeout=0.2)  # the control: another source


def test_the_cache_keeps_nothing_of_who_asked(own: Toolbox) -> None:
    class Large:
        pass

    def ask() -> weakref.ref[Large]:
        large = Large()
        with pytest.raises(CompileError):
            own.compile("let b = ;")
        return weakref.ref(large)

    held = ask()
    gc.collect()
    assert held() is None


def test_the_cache_is_bounded_in_bytes(spawn: CountingSpawn) -> None:
    with Toolbox(sandbox="off", spawn=spawn, cache_bytes=20_000) as small:
        kept = small.compile("let kept")
        dropped = small.compile("let dropped")
        for number in range(20):
            small.compile(f"// {number} {'x' * 1000}")
            assert small.compile("let kept") is kept  # used: stays
            assert small._cache.size <= 20_000
        assert small.compile("let dropped") is not dropped
        before = len(small._cache)
        small.compile("//" + "y" * 30_000)
        assert len(small._cache) == before


# ── what cannot start, or is not a toolbox ───────────────────────────────────────────────────────────────────────────


def test_a_missing_bundle(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="not built"):
        Toolbox(sandbox="off", bundle=tmp_path / "none.js").compile("let a")


def test_a_program_that_ends_at_once(tmp_path: Path) -> None:
    bundle = tmp_path / "toolbox.js"
    bundle.write_text("throw 1")
    with pytest.raises(EngineUnavailableError, match="ended at once"):
        Toolbox(sandbox="off", bundle=bundle).compile("let a")


def test_the_jail_is_on_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def seccomp(toolbox: Toolbox) -> str:
        status = Path(f"/proc/{resident(toolbox)}/status").read_text()
        return status.partition("Seccomp:")[2].split()[0]

    with Toolbox() as jailed, Toolbox(sandbox="off") as plain:
        assert (seccomp(jailed), seccomp(plain)) == ("2", "0")
        root = os.listdir(f"/proc/{jailed.pid}/root/")
        assert "etc" not in root and "home" not in root

    def refuse(*_: object, **__: object) -> None:
        raise SandboxUnavailableError("a layer is missing")

    monkeypatch.setattr("gloveport.engines.toolbox.process.spawn_jailed", refuse)
    with Toolbox() as refused, pytest.raises(SandboxUnavailableError):
        refused.compile("let a")


def test_an_unknown_mode() -> None:
    with pytest.raises(ValueError, match="'require', 'auto' or 'off'"):
        Toolbox(sandbox="maybe")  # type: ignore[arg-type]


HELLO = {"id": 1, "ok": True, "protocol": 1}
GOOD = {"id": 2, "ok": True, "code": "c", "names": []}


def frame(message: object) -> bytes:
    return framed(json.dumps(message).encode())


def framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def impostor(replies: Sequence[bytes]) -> Toolbox:
    """A toolbox whose process answers its n-th request with the n-th reply."""
    program = (
        "import os, struct, zlib\n"
        "for reply in map(zlib.decompress, [{}]):\n"
        " n = struct.unpack('<I', os.read(0, 4))[0]\n os.read(0, n)\n os.write(1, reply)\n"
        "os.read(0, 1)"
    ).format(",".join(repr(zlib.compress(reply)) for reply in replies))

    def spawn_impostor(argv: Sequence[str], readable: Sequence[Path], sandbox: SandboxMode) -> Child:
        return spawn_plain([sys.executable, "-c", program], readable, sandbox)

    return Toolbox(sandbox="off", spawn=spawn_impostor)


def test_the_impostor_can_be_honest() -> None:
    with impostor([frame(HELLO), frame(GOOD)]) as toolbox:
        assert toolbox.compile("let a").code == "c"
    rich = {"names": ["[{1e9,Infinity}]"] * 1000, "map": [[[1, 2, 3]] * 1000, []], "code": '\\\ud800"[' * 50_000}
    with impostor([frame(HELLO), frame({**GOOD, **rich})]) as toolbox:
        assert toolbox.compile("let a").code == rich["code"]


def test_a_reply_may_grow_with_its_source() -> None:
    large = {"names": ["a"] * 50_000, "code": "x" * 2_000_000}
    with impostor([frame(HELLO), frame({**GOOD, **large})]) as toolbox:
        assert toolbox.compile("//" + "x" * 60_000).code == large["code"]


@pytest.mark.parametrize(
    "source",
    [
        "".join(f"enum A{n.to_bytes(2).hex()}{{a}}\n" for n in range(3000)),
        "enum Q{z};" + "a;" * 20_000,
        "let " + ",".join(f"a{n:x}" for n in range(3000)),
    ],
    ids=["enums", "small parts", "names"],
)
def test_sources_whose_replies_are_large(own: Toolbox, source: str) -> None:
    assert own.compile(source).names


def test_the_largest_replies_of_modules(own: Toolbox) -> None:
    own.module("export class A{" + "".join(f"@d a{n:x};" for n in range(1000)) + "}")
    own.module("export const x=<p>" + "<a/>" * 20_000 + "</p>")
    own.module("".join(f'import"{n:x}";' for n in range(1000)))


@pytest.mark.parametrize(
    "reply",
    [
        struct.pack("<I", 0xFFFFFFFF),
        frame({**GOOD, "id": 7}),
        frame(GOOD) + b"x",
        struct.pack("<I", 3) + b"{]}",
        frame([1]),
        struct.pack("<I", 60_000) + b"[" * 60_000,
        frame({**GOOD, "names": [{}] * 50_000}),
        frame({**GOOD, "map": [[]] * 50_000}),
        frame({**GOOD, "code": "x" * 2_000_000}),
        framed(b'{"id":2,"ok":true,"code":"c","names":[],"map":[[[1e999,0,0]]]}'),
        framed(b'{"id":2,"ok":true,"code":"c","names":[],"map":[[[Infinity,0,0]]]}'),
        framed(b'{"id":2,"ok":true,"code":"c","names":[],"map":[[[%s,0,0]]]}' % (b"9" * 4000)),
    ],
    ids=[
        *("length", "id", "more", "not json", "not an object", "deep"),
        *("objects", "lists", "bytes", "too large a number", "infinity", "digits"),
    ],
)
def test_replies_that_break_the_protocol(reply: bytes) -> None:
    with impostor([frame(HELLO), reply]) as toolbox, pytest.raises(CompileError, match="crashes the compiler"):
        toolbox.compile("let a")


@pytest.mark.parametrize("hello", [{**HELLO, "protocol": 2}, {**HELLO, "ok": False}, {"id": 1}])
def test_another_version(hello: object) -> None:
    with impostor([frame(hello)]) as toolbox, pytest.raises(EngineUnavailableError, match="another version"):
        toolbox.compile("let a")


@pytest.mark.parametrize("reply", [{"code": 1, "names": []}, {"code": "c"}, {"code": "c", "names": [], "map": [[[1]]]}])
def test_replies_of_the_wrong_shape(reply: dict[str, object]) -> None:
    answer = frame({"id": 2, "ok": True, **reply})
    with impostor([frame(HELLO), answer]) as toolbox, pytest.raises(EngineUnavailableError, match="without code"):
        toolbox.compile("let a")


HOST = """
import os, signal
from gloveport.engines.toolbox import Toolbox
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with Toolbox(sandbox="off") as toolbox:
    toolbox.compile("let a")
    os.kill(toolbox.pid, signal.SIGKILL)
    os.waitid(os.P_PID, toolbox.pid, os.WEXITED | os.WNOWAIT)
    print(toolbox.compile("let b").names, signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)
"""


def test_a_process_that_has_ended_does_not_end_a_host_with_the_signals_of_a_command() -> None:
    done = subprocess.run([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("('b',) set()\n", 0)


def test_a_reply_that_comes_too_late_is_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fd = ours.fileno()
        connection = Connection(Child(0, fd, fd, theirs.close, theirs.close, theirs.close))
        theirs.sendall(frame({"id": 1, "ok": True}) + frame({"id": 2, "ok": True})[:1])
        with pytest.raises(ToolboxTimeout):
            connection.request("hello", "", -1.0)


def test_no_descriptor_is_left(spawn: CountingSpawn) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Toolbox(sandbox="off", spawn=spawn) as toolbox:
            resident(toolbox)
            os.kill(spawn.pids[-1], signal.SIGKILL)
            resident(toolbox)
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() < 50
