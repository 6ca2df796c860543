"""What goes wrong around machines, and what becomes of them: killed callers, memory, full disks, many files, races, clocks, leftovers."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gloveport import Sandbox
from gloveport.errors import GloveportError, LimitExceededError, SandboxNotFoundError
from gloveport.machines.estate import estate

from .conftest import boxes_alive, eventually, groups_left
from .hands import Hand

LARGE = bool(os.environ.get("CI") or os.environ.get("GLOVEPORT_TEST_LARGE"))
"""Whether sizes are those of the promise, or a part of them: the test is the same."""


def test_a_caller_that_is_killed_in_the_middle_of_a_command(sandbox):
    """The command goes on, and whoever knows the machine has all of its output."""
    script = (
        "import sys; from gloveport import Sandbox\n"
        "Sandbox.connect(sys.argv[1]).commands.run('echo begun; sleep 1.5; echo done > d; echo ended', "
        "timeout_seconds=60, on_stdout=lambda t: print(t, flush=True))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", script, sandbox.id], stdout=subprocess.PIPE, env=environment
    ) as caller:
        assert caller.stdout.readline() == b"begun\n"
        caller.kill()
    (info,) = [info for info in sandbox.commands.list() if info.state == "running"]
    result = sandbox.commands.attach(info.id).wait(60)
    assert (result.stdout, result.exit_code) == ("begun\nended\n", 0)
    assert sandbox.files.read_text("/workspace/d") == "done\n"


def test_four_times_two_hundred_mebibytes():
    """Each would fit alone; together they do not, which is said, and the machine goes on."""
    limits = Sandbox.capabilities().limits
    if limits.memory not in ("total", "polled"):
        pytest.skip("the memory of a whole machine is not limited here")
    hog = "python3 -c \"x = bytearray(b'x') * (200 << 20); print('fits', flush=True); import time; time.sleep({})\""
    with Sandbox.create(memory_mb=256) as sandbox:
        assert sandbox.commands.run(hog.format(0), timeout_seconds=60).stdout == "fits\n"  # the control
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: sandbox.commands.run(hog.format(3), timeout_seconds=60), range(4)))
        assert "memory" in {result.limit for result in results}, results
        assert sandbox.commands.run("echo well").stdout == "well\n"


def test_a_hundred_thousand_files():
    count = 100_000 if LARGE else 20_000
    with Sandbox.create() as sandbox:
        sandbox.commands.run(f"mkdir many; cd many; seq {count} | xargs touch", timeout_seconds=100, check=True)
        assert len(sandbox.files.list("/workspace/many")) == count
        snapshot = sandbox.snapshot()
        try:
            sandbox.files.remove("/workspace/many", recursive=True)
            assert not sandbox.files.exists("/workspace/many")
            with Sandbox.create(from_snapshot=snapshot) as other:
                assert other.commands.run("ls -U many | wc -l").stdout == f"{count}\n"
        finally:
            Sandbox.delete_snapshot(snapshot)


def test_whoever_kills_while_it_is_made(state):
    """Two hundred machines, each killed by its id from another thread as soon as it is known."""
    before = {info.id for info in Sandbox.list()}

    def race(number):
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            name = f"race-{number}"
            found = other.submit(kill_by_name, name)
            try:
                Sandbox.create(name, memory_mb=64).kill()
            except GloveportError:
                pass  # it was killed under our hands
            return found.result()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        killed = sum(pool.map(race, range(200)))
    assert killed > 0
    assert {info.id for info in Sandbox.list()} == before
    ended = [record.id for record in estate().registry.find(ended=True)]
    assert groups_left(state, ended) == [] and set(os.listdir(state / "boxes")) == before


def kill_by_name(name):
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        for record in estate().registry.find():
            if record.name == name:
                return Sandbox.kill_by_id(record.id)
    return False


HASHES = """
import hashlib, os, time
data = bytearray(os.urandom(1 << 20)) * 16
turn = 0
while True:
    turn += 1
    with open("/tmp/new", "w") as file: file.write(f"{turn} {hashlib.sha256(data).hexdigest()}")
    os.rename("/tmp/new", "/tmp/told")
    time.sleep(0.01)
"""


def test_fifty_pauses(sandbox):
    sandbox.files.write("/workspace/h.py", HASHES)
    sandbox.commands.start(["python3", "h.py"])
    eventually(lambda: sandbox.files.exists("/tmp/told"))
    blob = os.urandom(1 << 20)
    sandbox.files.write("/workspace/blob", blob)
    digest, turn = sandbox.files.read_text("/tmp/told").split()[1], 0
    for _ in range(50):
        sandbox.pause()
        sandbox.resume()
        eventually(lambda: int(sandbox.files.read_text("/tmp/told").split()[0]) > turn)
        turn, told = sandbox.files.read_text("/tmp/told").split()
        turn = int(turn)
        assert told == digest
        assert hashlib.sha256(sandbox.files.read("/workspace/blob")).digest() == hashlib.sha256(blob).digest()
    assert sandbox.get_info().starts == 1


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="makes a time namespace")
@pytest.mark.parametrize("ahead", [0, 100_000])
def test_deadlines_count_from_the_boot_and_not_by_the_wall(state, ahead):
    """In a time namespace that booted a day earlier: a deadline is as far away as it was asked for, and `monotonic` has no part in it."""
    script = (
        "import sys, time; from gloveport import Sandbox\n"
        "with Sandbox.create(timeout_seconds=1.5) as s:\n"
        "    first = s.status; time.sleep(0.4); second = s.commands.run('sleep 0.2; echo here').stdout\n"
        "    late = s.commands.run('sleep 60', timeout_seconds=0.3).timed_out\n"
        "    end = time.monotonic() + 20\n"
        "    while s.status != 'paused' and time.monotonic() < end: time.sleep(0.02)\n"
        "    print(first, second.strip(), late, s.status, s.get_info().reason)"
    )
    other = state.parent / f"time-{ahead}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "GLOVEPORT_STATE": str(other)}
    command = [
        "unshare",
        "--time",
        "--boottime",
        str(ahead),
        "--monotonic",
        str(ahead // 2),
        "--fork",
        sys.executable,
        "-c",
        script,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr and not done.stdout:
        pytest.skip(f"no time namespaces here: {done.stderr.strip()[-200:]}")
    assert done.stdout == "active here True paused timeout\n", done.stderr
    assert os.listdir(other / "boxes") == [] and boxes_alive(other) == []


def mounts_of(root):
    """In any mount namespace that we may see."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                found += [line for line in Path(entry.path, "mountinfo").read_text().splitlines() if str(root) in line]
            except OSError:
                pass
    return found


def test_nothing_is_left_after_a_sweep(tmp_path):
    """Of machines that ended in every way: killed, holder killed, supervisor and holder killed, paused and killed, never started."""
    environment = {
        **os.environ,
        "GLOVEPORT_STATE": str(tmp_path / "state"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    script = """
import os, signal, sys
from gloveport import Sandbox
from gloveport.machines.estate import estate
boxes = [Sandbox.create(memory_mb=64, auto_delete_seconds=0) for _ in range(5)]
def holder(box, key="holder"):
    return int((estate().folder(box.id) / "state").read_text().partition(key + "=")[2].split()[0])
boxes[0].kill()
boxes[1].pause()
os.kill(holder(boxes[1]), signal.SIGKILL)
for key in ("supervisor", "holder"): os.kill(holder(boxes[2], key), signal.SIGKILL)
os.kill(holder(boxes[3], "pid1"), signal.SIGKILL)
(estate().root / "boxes" / "box-never" / "upper").mkdir(parents=True)
print(*[box.id for box in boxes], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    ids = done.stdout.split()
    assert len(ids) == 5, done.stderr
    root = tmp_path / "state"
    assert boxes_alive(root)  # the control: the last one lives
    last = (
        "import sys, time; from gloveport import Sandbox; from gloveport.machines.estate import estate\n"
        "end = time.monotonic() + 20\n"
        "while len([i for i in Sandbox.list() if i.status == 'active']) > 1 and time.monotonic() < end: time.sleep(0.05)\n"
        "time.sleep(0.1); estate().sweep(); Sandbox.kill_by_id(sys.argv[1]); print(len(Sandbox.list()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", last, ids[4]], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "0\n", done.stderr
    assert os.listdir(root / "boxes") == []
    eventually(lambda: boxes_alive(root) == [] and mounts_of(root) == [])
    assert groups_left(root, ids) == []


def test_a_large_file_goes_up_and_down_in_flat_memory(state):
    """By a process of its own, whose peak of memory is looked at; and every byte arrives."""
    size = (1 << 30) if LARGE else (128 << 20)
    script = """
import hashlib, resource, sys
from gloveport import Sandbox
size = int(sys.argv[1])
def pieces():
    block = bytes(range(256)) * 4096
    for n in range(size >> 20):
        piece = n.to_bytes(8, "little") + block[8:]
        up.update(piece)
        yield piece
with Sandbox.create(disk_mb=None, memory_mb=None) as sandbox:
    up, down = hashlib.sha256(), hashlib.sha256()
    sandbox.files.write("/workspace/warm", b"x" * (1 << 20)); sandbox.files.read("/workspace/warm")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sandbox.files.write("/workspace/big", pieces()) == size
    for piece in sandbox.files.read_stream("/workspace/big"):
        down.update(piece)
    print(up.digest() == down.digest(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script, str(size)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    equal, grown = done.stdout.split()
    assert equal == "True", done.stderr
    assert int(grown) < 24 << 10, grown  # KiB


def test_a_disk_that_is_full(state):
    """Typed, in a command and in the files; and the machine is what it was when there is room again."""
    if Sandbox.capabilities().limits.disk == "none":
        pytest.skip("the host counts no files")
    with Sandbox.create(disk_mb=48) as sandbox:
        result = sandbox.commands.run(
            "echo begun; for i in $(seq 400); do head -c 4000000 /dev/zero > f$i; sleep 0.02; done", timeout_seconds=60
        )
        assert (result.limit, result.stdout) == ("disk", "begun\n")

        def refused():
            try:
                sandbox.files.write("/workspace/more", b"x")
            except LimitExceededError as error:
                return error.limit == "disk"
            return False

        eventually(refused)
        assert sandbox.files.read("/workspace/f1", length=4) == bytes(4)
        sandbox.commands.run("rm -f f*", check=True)
        eventually(lambda: not refused())
        assert sandbox.files.read("/workspace/more") == b"x"


def test_a_hand_that_dies_while_it_wakes_a_machine(sandbox):
    """Killed at any moment of a resume: the machine is active or paused, never in between."""
    for delay in (0.0, 0.002, 0.01, 0.05):
        sandbox.pause()
        hand = Hand()
        hand.begin("resume", sandbox.id)
        time.sleep(delay + 0.15)
        os.kill(hand.process.pid, signal.SIGKILL)
        hand.process.wait()
        hand.process.stdin.close()
        hand.process.stdout.close()
        assert sandbox.status in ("active", "paused")
        assert sandbox.commands.run("echo well").stdout == "well\n"
    with pytest.raises(SandboxNotFoundError):
        Sandbox.connect("box-that-never-was")
