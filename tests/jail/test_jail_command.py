"""A trusted program in the jail: the system's Python stands for it, because it can try things."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest
from jail_people import Person, people

from gloveport.engines.jail.command import spawn_jailed
from gloveport.errors import EngineUnavailableError

EVERYONE = people("root", "ordinary")


@pytest.mark.parametrize("person", EVERYONE, indirect=True)
def test_what_a_program_can_do(person: Person) -> None:
    seen = person.run("jail/jail_program.py", json.dumps({"sandbox": "require"}))
    assert seen["echo"] == "hello"
    assert seen["status"] == 7
    assert seen["readable"] == "shown"
    assert seen["environment"] == {"GREETING": "hi"}
    assert seen["thread"] is True
    assert seen["scratch"] == "kept"
    assert set(seen["refused"]) == {
        "passwd",
        "root",
        "write",
        "grow",
        "socket",
        "fork",
        "program",
        "loader",
        "kill",
        "proc",
    }
    assert seen["descriptors"] == [0, 1, 2]


@pytest.mark.parametrize("person", EVERYONE, indirect=True)
def test_the_control_without_a_jail(person: Person) -> None:
    seen = person.run("jail/jail_program.py", json.dumps({"sandbox": "off"}))
    assert seen["echo"] == "hello"
    assert {"passwd", "root", "socket", "fork", "program", "proc"}.isdisjoint(seen["refused"])


@pytest.mark.parametrize("sandbox", ["require", "auto"])
@pytest.mark.parametrize("person", people("nobody may make namespaces"), indirect=True)
def test_a_machine_without_namespaces(person: Person, sandbox: str) -> None:
    seen = person.run("jail/jail_program.py", json.dumps({"sandbox": sandbox}))
    if sandbox == "require":
        assert "SandboxUnavailableError" in seen["error"]
        assert "net-namespace" in seen["error"]
    else:
        assert seen["echo"] == "hello"
        assert seen["warnings"] == 1
        assert {"passwd", "socket", "fork"} <= set(seen["refused"])


@pytest.mark.parametrize("sandbox", ["require", "off"])
@pytest.mark.parametrize("person", EVERYONE, indirect=True)
def test_it_dies_with_its_host(person: Person, sandbox: str) -> None:
    with person.popen("jail/jail_program.py", json.dumps({"sandbox": sandbox, "stay": True})) as host:
        assert host.stdout
        pid = json.loads(host.stdout.readline())["pid"]
        assert _alive(pid)
        host.kill()
        host.wait()
        end = time.monotonic() + 5
        while _alive(pid) and time.monotonic() < end:
            time.sleep(0.005)
        assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_socket_for_stdio_and_kill() -> None:
    process = spawn_jailed(["/bin/cat"], stdio="socket")
    assert process.stdin == process.stdout
    os.write(process.stdin, b"through")
    assert os.read(process.stdout, 100) == b"through"
    assert process.poll() is None
    process.kill()
    assert process.wait(5) == 128 + 9
    process.close()
    process.close()
    assert process.pidfd == -1


def test_the_end_of_stdin_ends_it() -> None:
    process = spawn_jailed(["/bin/cat"])
    os.write(process.stdin, b"all")
    os.close(process.stdin)
    process.stdin = -1
    assert os.read(process.stdout, 100) == b"all"
    assert process.wait(5) == 0
    process.close()


def test_what_cannot_be_started_says_why() -> None:
    with pytest.raises(EngineUnavailableError, match="does not exist"):
        spawn_jailed(["/no/such/program"])
    with pytest.raises(EngineUnavailableError, match="does not exist"):
        spawn_jailed(["/bin/cat"], readable=["/no/such/file"])
    with pytest.raises(EngineUnavailableError, match="ELF"):
        spawn_jailed(["/etc/passwd"])


def test_a_host_with_many_descriptors_passes_none_on() -> None:
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(400)]
    try:
        process = spawn_jailed(["/bin/cat"])
        links = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")]
        process.close()
    finally:
        for fd in held:
            os.close(fd)
    assert len(links) == 3


def test_nothing_is_left_behind() -> None:
    def count() -> tuple[int, int]:
        children = subprocess.run(
            ["ps", "--ppid", str(os.getpid()), "-o", "pid="], capture_output=True, text=True, check=False
        ).stdout.split()
        return len(os.listdir("/proc/self/fd")), len(children)

    before = count()
    for _ in range(5):
        spawn_jailed(["/bin/cat"]).close()
    for _ in range(2):
        with pytest.raises(EngineUnavailableError):
            spawn_jailed(["/etc/passwd"])
    assert count() == before


@pytest.mark.parametrize("person", EVERYONE, indirect=True)
def test_directories_under_other_paths(person: Person) -> None:
    """A program can be shown them, may write only those that it was given for that, and starts where it should."""
    seen = person.run("jail/jail_mounts.py")
    assert seen == {
        "read": "inside\n",
        "hidden": "",
        "own path": "",
        "directory": "/workspace\n",
        "write shown": False,
        "write out": True,
        "write root": False,
    }
