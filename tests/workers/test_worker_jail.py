"""What code that took a worker over finds there. The `python` request of the fake guest is that code."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import tempfile
import warnings

import pytest
from fake_guest import GUESTS
from jail_people import Person, people
from worker_frames import Line, eventually

from gloveport.engines.jail import descriptors
from gloveport.engines.wasm.pool import WorkerPool
from gloveport.errors import EngineUnavailableError, SandboxUnavailableError

OPEN = """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
result = [fd for fd in range(1024) if c.fcntl(fd, 1) >= 0]
"""


@pytest.mark.parametrize("shared", [False, True])
def test_it_inherits_no_descriptor(shared: bool) -> None:
    extra, _inheritable = socket.socketpair(), os.memfd_create("extra", 0)
    os.set_inheritable(extra[0].fileno(), True)
    with tempfile.TemporaryFile() as file, WorkerPool(guests=GUESTS) as pool:
        os.set_inheritable(file.fileno(), True)
        first = pool.open_shared("a") if shared else pool.take()
        with Line(first) as line, Line(pool.open_shared("a") if shared else pool.take()) as other:
            assert other.step(b"ready").output == b"ready"
            held = ast.literal_eval(line.python(OPEN))
            targets = {os.readlink(f"/proc/{line.worker.pid}/fd/{fd}").partition(":")[0] for fd in held}
            assert [fd for fd in held if fd <= 2] == [0, 1, 2]
            # /dev/null three times and sockets: its own; for a shared worker also the control socket and each session's.
            assert targets == {"/dev/null", "socket"}
            assert len(held) == (3 + 3 if shared else 3 + 1)
    os.close(_inheritable)
    for end in extra:
        end.close()


def test_what_the_host_receives_is_not_inherited_by_its_programs() -> None:
    def inherited() -> int:
        count = "import os; print(len(os.listdir('/proc/self/fd')))"
        counted = subprocess.run([sys.executable, "-c", count], check=True, close_fds=False, stdout=subprocess.PIPE)
        return int(counted.stdout)

    before = inherited()
    with WorkerPool(guests=GUESTS) as pool:
        workers = [pool.take(), pool.take(), pool.open_shared("a")]
        for worker in workers:
            for fd in (worker.fileno(), worker.pidfd, worker._hold.page):
                assert not os.get_inheritable(fd)
        assert inherited() == before


def test_descriptors_are_received_closed_on_exec() -> None:
    one, two = socket.socketpair()
    descriptors.send(one, b"x", (0, 1))
    data, fds = descriptors.receive(two, 10, 2)
    assert (data, len(fds)) == (b"x", 2)
    assert not any(map(os.get_inheritable, fds))
    for fd in fds:
        os.close(fd)
    one.close()
    two.close()


@pytest.mark.parametrize("person", people("root", "ordinary"), indirect=True)
def test_a_whole_worker_as_everyone(person: Person) -> None:
    seen = person.run("workers/worker_inside.py", json.dumps({"sandbox": "require"}))
    assert seen["environment"] == "False"
    assert seen["file"].startswith("PermissionError")
    assert seen["socket"].startswith("PermissionError")
    assert seen["thread"].startswith(("RuntimeError", "error"))
    assert seen["fork"].startswith("PermissionError")
    assert seen["exec"].startswith("PermissionError")
    assert seen["limits"] == "[(0, 0), (0, 0), (0, 0), (0, 0)]"
    assert seen["shared memory"].startswith("PermissionError")
    assert seen["secret"] is False
    assert seen["answer"] == "still here"
    if os.geteuid() == 0 and person.name != "ordinary":
        assert seen["uid"] != 0


@pytest.mark.parametrize("person", people("root", "ordinary"), indirect=True)
def test_the_control_without_a_jail(person: Person) -> None:
    seen = person.run("workers/worker_inside.py", json.dumps({"sandbox": "off"}))
    for attempt in ("file", "socket", "thread", "fork", "shared memory"):
        assert seen[attempt] == "None", attempt
    assert seen["answer"] == "still here"


@pytest.mark.parametrize(
    ("limit", "size", "fits"),
    [(16 << 20, 64 << 20, True), (16 << 20, 1 << 30, False), (600 << 20, 1 << 30, True)],
)
def test_private_memory_is_bounded_by_the_guests_limit(limit: int, size: int, fits: bool) -> None:
    with WorkerPool(guests=GUESTS) as pool, Line(pool.take(), limit) as line:
        assert line.step(b"eat %d" % size).status == (0 if fits else 3)
        assert line.step(b"on").output == b"on"


def test_address_space_is_bounded() -> None:
    code = "import mmap\nresult = len(mmap.mmap(-1, {}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ))"
    with WorkerPool(guests=GUESTS) as pool, Line(pool.take()) as line:
        assert line.python(code.format(1 << 30)) == str(1 << 30)
        assert "Cannot allocate memory" in line.python(code.format(1 << 40))


def test_the_interrupt_page_cannot_be_shrunk() -> None:
    """A page that a worker could cut off would end the host with a signal if it were mapped, or lose the interrupt."""
    with WorkerPool(guests=GUESTS) as pool:
        for worker in (pool.take(), pool.open_shared("a")):
            with pytest.raises(PermissionError):
                os.ftruncate(worker._hold.page, 0)
            with pytest.raises(PermissionError):
                os.ftruncate(worker._hold.page, 1 << 20)
            worker.interrupt()
            assert os.pread(worker._hold.page, 1, 0) == b"\1"
            worker.close()


def test_a_sibling_cannot_be_reached() -> None:
    with WorkerPool(guests=GUESTS) as pool, Line(pool.take()) as one, Line(pool.take()) as two:
        sibling = int(two.python("import os\nresult = os.getpid()"))
        for code in (
            f"import os\nos.kill({sibling}, 9)",
            f"import fcntl\nfcntl.fcntl({{fd}}, 8, {sibling})",
            f"import fcntl, struct\nfcntl.fcntl({{fd}}, 15, struct.pack('ii', 1, {sibling}))",
            "import fcntl\nfcntl.fcntl({fd}, 10, 9)",
            "import fcntl\nfcntl.fcntl({fd}, 4, 0x2000)",
            f"import fcntl, struct\nfcntl.ioctl({{fd}}, 0x8901, struct.pack('i', {sibling}))",
            f"import resource\nresource.prlimit({sibling}, resource.RLIMIT_CPU, (0, 0))",
            f"import os\nos.pidfd_open({sibling})",
            f"import os\nos.sched_setaffinity({sibling}, [0])",
        ):
            fd = ast.literal_eval(one.python(OPEN))[-1]
            answer = one.python(code.replace("{fd}", str(fd)))
            assert answer.startswith("PermissionError"), code
        assert two.step(b"untouched").output == b"untouched"


@pytest.mark.parametrize(
    ("guests", "named"),
    [
        ("without_seccomp", "seccomp"),
        ("without_landlock", "landlock"),
        ("without_root", "root"),
        ("without_child_filter", "self-test"),
    ],
)
def test_require_refuses_a_jail_with_a_hole(guests: str, named: str) -> None:
    with WorkerPool(guests=f"fake_guest:{guests}") as pool, pytest.raises(SandboxUnavailableError, match=named):
        pool.take()


def test_workers_share_nothing_that_one_could_change() -> None:
    with (
        WorkerPool(guests="fake_guest:with_an_open_file") as pool,
        pytest.raises(EngineUnavailableError, match="unsealed"),
    ):
        pool.take()
    with WorkerPool(guests="fake_guest:with_a_sealed_file") as pool, Line(pool.take()) as line:
        (held,) = set(ast.literal_eval(line.python(OPEN))) - {0, 1, 2, ast.literal_eval(line.python(OPEN))[-1]}
        # RLIMIT_FSIZE speaks before the seal does.
        assert line.python(f"import os\nos.write({held}, b'x')").startswith(("PermissionError", "OSError(27"))


def test_auto_goes_on_with_one_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with WorkerPool(guests="fake_guest:without_landlock", sandbox="auto") as pool, Line(pool.take()) as line:
            assert line.step(b"on").output == b"on"
            pool.take().close()
    assert [w.category.__name__ for w in caught] == ["SandboxWarning"]
    assert "landlock" in str(caught[0].message)


@pytest.mark.parametrize("person", people("root"), indirect=True)
def test_closed_standard_descriptors_are_named(person: Person) -> None:
    """Descriptors of ours would take their numbers, and be overwritten in the child."""
    seen = person.run("workers/worker_inside.py", json.dumps({"sandbox": "require", "closed": True}))
    assert "standard input, output or error of this process is closed" in seen["error"]


@pytest.mark.parametrize("sandbox", ["require", "auto"])
@pytest.mark.parametrize("person", people("nobody may make namespaces"), indirect=True)
def test_a_machine_without_namespaces(person: Person, sandbox: str) -> None:
    seen = person.run("workers/worker_inside.py", json.dumps({"sandbox": sandbox}))
    if sandbox == "require":
        assert "SandboxUnavailableError" in seen["error"]
        for layer in ("user-namespace", "mount-namespace", "pid-namespace", "net-namespace", "root"):
            assert f"- {layer}: " in seen["error"]
        assert "sysctl" in seen["error"]
    else:
        assert seen["answer"] == "still here"
        assert seen["file"].startswith("PermissionError")


def test_workers_end_after_their_zygotes_children_are_many() -> None:
    with WorkerPool(guests=GUESTS) as pool:
        workers = [pool.take() for _ in range(20)]
        pool.close()
        assert eventually(lambda: not any(w.alive for w in workers))
