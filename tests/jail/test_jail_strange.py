"""Hosts that lack something, and what a program may still take: memory that nobody counts, numbers of descriptors, time to finish."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gloveport.engines.jail import descriptors
from gloveport.engines.jail.command import JailedProcess, spawn_jailed
from gloveport.errors import EngineUnavailableError

PYTHON = os.path.realpath("/usr/bin/python3")
LIBRARY = Path("/usr/lib", Path(PYTHON).name)


def answer(code: str, **options: object) -> object:
    """What that code prints, by the system's Python in a jail."""
    process = spawn_jailed([PYTHON, "-I", "-S", "-c", textwrap.dedent(code)], readable=[LIBRARY], **options)
    try:
        text = b""
        while more := os.read(process.stdout, 65536):
            text += more
        return json.loads(text)
    finally:
        process.close()


TAKE = """
    import mmap, json, os, socket
    def can(action):
        try: action()
        except (OSError, MemoryError, ValueError): return False
        return True
    def private(size, prot=mmap.PROT_READ | mmap.PROT_WRITE):
        return lambda: mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=prot)
    MIB, GIB = 1 << 20, 1 << 30
    print(json.dumps({
        "little": can(private(8 * MIB)), "much": can(private(400 * MIB)), "shared": can(lambda: mmap.mmap(-1, 8 * MIB)),
        "file": can(lambda: os.memfd_create("x")), "addresses": can(private(100 * GIB, mmap.PROT_READ)),
        "tables": can(private(400 * GIB, mmap.PROT_READ)), "name": socket.gethostname(),
    }))
"""


@pytest.mark.skipif(not LIBRARY.is_dir(), reason="needs a system Python")
def test_memory_that_nobody_counts_cannot_be_had() -> None:
    name = socket.gethostname()
    limited = answer(TAKE, memory_bytes=64 << 20)
    assert limited == {
        "little": True,
        "much": False,
        "shared": False,
        "file": False,
        "addresses": True,
        "tables": False,
        "name": "gloveport",
    }
    free = answer(TAKE, sandbox="off")
    assert free == {**dict.fromkeys(limited, True), "name": name}


def test_a_service_that_is_told_to_stop_can_finish_first() -> None:
    """A service manager sends SIGTERM to every process of a service, and ends what is left later."""
    process = spawn_jailed(["/bin/cat"], stdio="socket")
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(process._helper.pid, number)
            process.signal(number)
        os.write(process.stdin, b"still here")
        assert os.read(process.stdout, 100) == b"still here"
        process.kill()
        assert process.wait(5) == 128 + 9
    finally:
        process.close()


def test_many_files_can_be_shown(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    files = [tmp_path / f"folder {i}" / "deeper" / "file" for i in range(150)]
    for i, file in enumerate(files):
        file.parent.mkdir(parents=True)
        file.write_text(str(i))
    folder = tmp_path
    while folder != folder.parent:  # pytest's own directories are for one user only
        folder.chmod(folder.stat().st_mode | 0o055)
        folder = folder.parent
    process = spawn_jailed(["/bin/cat", str(files[-1])], readable=files)
    try:
        assert os.read(process.stdout, 100) == b"149"
    finally:
        process.close()


def test_descriptors_are_closed_whatever_their_number() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    high = min(most - 1, 1 << 17)
    reading, writing = os.pipe()
    kept = os.open("/dev/null", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            os.dup2(kept, high)
            descriptors.close_others({kept, writing})
            os.write(writing, json.dumps([is_open(fd) for fd in (0, 1, 2, reading, high, kept)]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.close(kept)
    with os.fdopen(reading, "rb") as said:
        assert json.load(said) == [False] * 5 + [True]
    os.waitpid(pid, 0)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def alone(code: str) -> subprocess.CompletedProcess[str]:
    """Runs a host of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_host_without_descriptors_says_so_and_loses_none() -> None:
    done = alone("""
        import os, resource
        from gloveport.engines.jail.command import spawn_jailed
        from gloveport.errors import EngineUnavailableError
        spawn_jailed(["/bin/cat"]).close()
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        refused = 0
        for room in range(24):
            before = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1 + room, hard))
            try:
                spawn_jailed(["/bin/cat"]).close()
            except EngineUnavailableError as error:
                assert "Too many open files" in str(error), error
                refused += 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            assert len(os.listdir("/proc/self/fd")) == before, room
        assert 3 < refused < 24, refused
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("call", ["pidfd_open", "memfd_create"])
@pytest.mark.parametrize("sandbox", ["require", "auto", "off"])
def test_a_call_that_a_surrounding_sandbox_refuses_is_named(call: str, sandbox: str) -> None:
    done = alone(f"""
        from gloveport import AgentSandbox
        from gloveport.engines.jail import seccomp, syscalls
        from gloveport.errors import EngineUnavailableError
        syscalls.call("prctl", 38, 1)
        seccomp.install(seccomp.deny_list({{{call!r}: seccomp.ALWAYS}}))
        try:
            AgentSandbox({{}}, sandbox={sandbox!r}).run("return 1")
        except EngineUnavailableError as error:
            print(error)
    """)
    assert done.returncode == 0, done.stderr
    assert "pidfd_open, memfd_create" in done.stdout
    assert "surrounding sandbox" in done.stdout


def test_descriptors_that_did_not_fit_are_an_error(request: pytest.FixtureRequest) -> None:
    """The kernel gives those that fit, and a flag."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        descriptors.send(here, b"x", (0, 1, 2))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
        free = [os.dup(0), os.dup(0)]
        held = set(map(int, os.listdir("/proc/self/fd")))
        for fd in free:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(free) + 1, hard))
        before = held - set(free)
        while len(gaps := set(range(max(free) + 1)) - before) > 2:  # numbers in between that are free
            before.add(os.dup(0))
        with pytest.raises(OSError, match="Too many open files"):
            descriptors.receive(there, 10, 3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert not any(is_open(fd) for fd in gaps)
        for fd in before - held:
            os.close(fd)


def test_a_fork_in_the_middle_of_a_start_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(process: JailedProcess, order: object, *rest: object, **options: object) -> None:
        ours.update({process.stdin, process.stdout, process.control.fileno(), process._helper._said})
        begun.set()
        go_on.wait(20)
        really(process, order, *rest, **options)

    from gloveport.engines.jail import command

    really: Callable[..., None] = command._start
    monkeypatch.setattr(command, "_start", slow)
    ours: set[int] = set()
    made: list[JailedProcess] = []
    thread = threading.Thread(target=lambda: made.append(spawn_jailed(["/bin/cat"])))
    thread.start()
    begun.wait(20)
    pid = os.fork()
    if pid == 0:
        os._exit(sum(map(is_open, ours)))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert all(map(is_open, ours))
    go_on.set()
    thread.join()
    made[0].close()


def test_a_loader_that_is_not_here_is_named(tmp_path: Path) -> None:
    program = bytearray(Path("/bin/cat").read_bytes())
    loader = b"/lib64/ld-linux-x86-64.so.2\0"
    if loader not in program:
        pytest.skip("another loader")
    at = program.index(loader)
    program[at : at + 12] = b"/none/ld-lin"
    other = tmp_path / "cat"
    other.write_bytes(program)
    other.chmod(0o755)
    with pytest.raises(EngineUnavailableError, match="loaded by /none/ld-lin"):
        spawn_jailed([other])
