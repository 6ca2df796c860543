"""What holds when a process of ours dies, when the guest takes what it can, and when time goes by."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.box.client import (
    BOX_STATS,
    EXEC,
    FREEZE,
    KILL,
    REMOVE,
    SIGNAL,
    STATUS,
    THAW,
    TIMERS,
    BoxError,
    Connection,
)
from tests.box.places import Place, alive, send_signal, state, wait_for

COUNTER = "i=0; while :; do i=$((i+1)); echo $i > /tmp/count; done"
BOMB = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"


def control(folder: Path) -> Connection:
    return Connection(folder, "ctl.sock")


def say(folder: Path, kind: int, **fields: object) -> dict[str, object]:
    with control(folder) as client:
        return client.ask(kind, **fields)


def start(folder: Path, *argv: str, **fields: object) -> int:
    with Connection(folder) as client:
        return client.ask(EXEC, argv=list(argv), **fields)["id"]


def inside(folder: Path) -> list[int]:
    """The host's ids of all processes of a box but the first."""
    found, left = [], [int(state(folder)["pid1"])]
    while left:
        pid = left.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            children = [
                int(one) for task in tasks for one in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            ]
        except OSError:
            continue
        found += children
        left += children
    return found


def stat_of(pid: int) -> list[str]:
    """The fields from the third on: proc_pid_stat(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def used(folder: Path) -> list[tuple[str, str]]:
    """Of the processors, by each of those processes."""
    return [(stat_of(pid)[11], stat_of(pid)[12]) for pid in inside(folder)]


@pytest.fixture
def groups(place: Place) -> Iterator[Callable[[str], list[str]]]:
    """Makes control groups for one box, of every hierarchy that root has here."""
    if place.uid:
        pytest.skip("an ordinary user has no control groups here")
    points = [Path("/sys/fs/cgroup") / name for name in ("memory", "pids", "cpu", "unified", ".")]
    made: list[Path] = []

    def make(name: str) -> list[str]:
        for point in points:
            if (point / "cgroup.procs").exists():
                made.append(point / f"box-test-{os.getpid()}-{name}")
                made[-1].mkdir()
        return [str(path) for path in made]

    yield make
    for path in made:
        assert not path.exists(), "the box removes them"
    if not made:
        pytest.skip("no control groups here")


# ── processes of ours that die ───────────────────────────────────────────────────────────────────────────────────────


def test_a_supervisor_that_dies_while_running_is_replaced(box: Callable[..., Path]) -> None:
    folder = box()
    with Connection(folder) as client:
        job = client.ask(EXEC, argv=["sh", "-c", "x=kept; sleep 1; echo $x"])["id"]
        before = state(folder)["supervisor"]
        send_signal(before)
        wait_for(lambda: state(folder)["supervisor"] != before)
        assert state(folder)["restarts"] == "1" and state(folder)["state"] == "running"
        client.send(2, id=job)
        assert client.follow()["stdout"] == b"kept\n"
    say(folder, FREEZE)
    assert state(folder)["state"] == "paused"
    say(folder, THAW)
    with Connection(folder) as client:
        assert client.run("true")["exit_code"] == 0


def test_a_supervisor_that_dies_while_paused_keeps_it_paused(box: Callable[..., Path]) -> None:
    folder = box(wake=0)
    start(folder, "sh", "-c", COUNTER)
    wait_for(lambda: (folder / "upper/tmp/count").exists())
    say(folder, FREEZE)
    before, count = state(folder), (folder / "upper/tmp/count").read_text()
    send_signal(before["supervisor"])
    wait_for(lambda: state(folder)["supervisor"] != before["supervisor"])
    after = state(folder)
    assert after["state"] == "paused" and after["since"] == before["since"] and after["pid1"] == before["pid1"]
    time.sleep(0.1)
    assert (folder / "upper/tmp/count").read_text() == count  # nothing ran in between
    say(folder, THAW)
    wait_for(lambda: (folder / "upper/tmp/count").read_text() not in ("", count))


def test_deadlines_outlive_a_supervisor(box: Callable[..., Path]) -> None:
    folder = box(pause_after_ms=1500)
    began, planned = int(state(folder)["since"]), say(folder, STATUS)["pause_in_ms"]
    before = state(folder)["supervisor"]
    send_signal(before)
    wait_for(lambda: state(folder)["supervisor"] != before)
    assert 0 < say(folder, STATUS)["pause_in_ms"] <= planned
    wait_for(lambda: state(folder)["state"] == "paused")
    after = state(folder)
    assert after["reason"] == "timeout"
    assert int(after["since"]) >= began + 1500


def test_a_holder_that_dies_takes_the_box_along(place: Place) -> None:
    folder = place.directory()
    done = place.start(folder)
    holder = int(done.stdout.split("holder=")[1].split()[0])
    start(folder, "sh", "-c", "echo kept > /workspace/file; setsid sleep 1000 & sleep 1000", detach=1)
    wait_for(lambda: (folder / "upper/workspace/file").exists() and len(inside(folder)) >= 2)
    everything = [*inside(folder), int(state(folder)["pid1"]), int(state(folder)["supervisor"])]
    send_signal(holder)
    wait_for(lambda: not any(map(alive, everything)), seconds=5)
    assert state(folder)["state"] == "gone" and state(folder)["reason"] == "holder-killed"
    assert (folder / "upper/workspace/file").read_text() == "kept\n"
    assert not (folder / "agent.sock").exists() and not (folder / "ctl.sock").exists()
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    lock = subprocess.run(["flock", "-n", str(folder / "lock"), "true"], check=False)
    assert lock.returncode == 0


def test_a_paused_box_dies_with_its_holder(place: Place) -> None:
    folder = place.directory()
    holder = int(place.start(folder).stdout.split("holder=")[1].split()[0])
    start(folder, "sleep", "1000")
    say(folder, FREEZE)
    everything = [*inside(folder), int(state(folder)["pid1"]), int(state(folder)["supervisor"])]
    send_signal(holder)
    wait_for(lambda: not any(map(alive, everything)), seconds=5)
    assert state(folder)["reason"] == "holder-killed"


def test_who_started_a_box_may_die(place: Place) -> None:
    folder = place.directory()
    starter = subprocess.Popen(
        [*place.prefix, str(place.program), "run", "--foreground", str(folder)], stdout=subprocess.PIPE
    )
    try:
        assert starter.stdout is not None and starter.stdout.readline().startswith(b"ready")
        starter.kill()
        starter.wait()
        with Connection(folder) as client:
            assert client.run("true")["exit_code"] == 0
    finally:
        say(folder, KILL)
        wait_for(lambda: state(folder)["state"] == "gone")
        starter.stdout.close()


# ── pausing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pausing_fifty_times_while_processes_come_and_go(box: Callable[..., Path]) -> None:
    folder = box()
    start(folder, "sh", "-c", "while :; do for i in 1 2 3 4 5; do (echo $i) > /tmp/count & done; wait; done")
    start(folder, "sh", "-c", COUNTER)
    wait_for(lambda: (folder / "upper/tmp/count").exists())
    for _ in range(50):
        assert say(folder, FREEZE)["state"] == b"paused"
        letters = {Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in inside(folder)}
        assert letters <= {"T", "Z", "D", "S"} and "R" not in letters
        assert say(folder, THAW)["state"] == b"running"
    with Connection(folder) as client:
        assert client.run("true")["exit_code"] == 0


def test_pausing_in_control_groups(groups: Callable[[str], list[str]], box: Callable[..., Path]) -> None:
    folder = box(cgroup=groups("pause"), wake=0)
    start(folder, "sh", "-c", "while :; do for i in 1 2 3 4 5; do (echo $i) > /tmp/count & done; wait; done")
    wait_for(lambda: (folder / "upper/tmp/count").exists())
    for _ in range(25):
        say(folder, FREEZE)
        say(folder, THAW)
    say(folder, FREEZE)
    before = state(folder)["supervisor"]
    send_signal(before)
    wait_for(lambda: state(folder)["supervisor"] != before)
    count = (folder / "upper/tmp/count").stat().st_mtime_ns
    time.sleep(0.1)
    assert state(folder)["state"] == "paused" and (folder / "upper/tmp/count").stat().st_mtime_ns == count
    say(folder, THAW)
    wait_for(lambda: (folder / "upper/tmp/count").stat().st_mtime_ns != count)


def test_control_groups_go_with_a_holder_that_dies(groups: Callable[[str], list[str]], place: Place) -> None:
    made = groups("holder")
    folder = place.directory(cgroup=made)
    holder = int(place.start(folder).stdout.split("holder=")[1].split()[0])
    start(folder, "sleep", "1000")
    send_signal(holder)
    wait_for(lambda: state(folder)["state"] == "gone")
    assert not any(map(os.path.exists, made))


def test_all_of_it_stops(box: Callable[..., Path]) -> None:
    folder = box(wake=0)
    start(folder, "sh", "-c", "setsid sh -c 'while :; do :; done' & while :; do :; done")
    wait_for(lambda: len(inside(folder)) >= 2)
    say(folder, FREEZE)
    before = used(folder)
    time.sleep(0.15)
    assert before == used(folder)
    say(folder, THAW)
    wait_for(lambda: before != used(folder))


def test_what_the_guest_stopped_stays_stopped(box: Callable[..., Path]) -> None:
    folder = box()
    start(folder, "sh", "-c", "sleep 1000 & echo $! > /tmp/pid; kill -STOP $!; wait")
    wait_for(lambda: "T" in [stat_of(pid)[0] for pid in inside(folder)])
    say(folder, FREEZE)
    say(folder, THAW)
    with Connection(folder) as client:
        assert client.sh("cut -d' ' -f3 /proc/$(cat /tmp/pid)/stat")["stdout"] == b"T\n"


def test_a_client_wakes_a_box_or_is_told(box: Callable[..., Path]) -> None:
    folder = box()
    say(folder, FREEZE)
    with Connection(folder) as client:
        assert client.run("true")["exit_code"] == 0
    assert state(folder)["state"] == "running" and state(folder)["reason"] == "wake"
    say(folder, TIMERS, wake=0)
    say(folder, FREEZE)
    with pytest.raises(BoxError) as told, Connection(folder) as client:
        client.answer()
    assert told.value.code == "paused"
    assert state(folder)["state"] == "paused"


def test_idle_connections_end_before_a_pause_and_busy_ones_do_not(box: Callable[..., Path]) -> None:
    folder = box()
    with Connection(folder) as idle, Connection(folder) as busy:
        idle.run("true")
        busy.send(EXEC, shell="sleep 0.3; echo done", follow=1)
        busy.answer()
        say(folder, FREEZE)
        with pytest.raises(EOFError):
            idle.frame()
        say(folder, THAW)
        assert busy.follow()["stdout"] == b"done\n"


def test_frozen_time_is_not_of_a_timeout(box: Callable[..., Path]) -> None:
    folder = box()
    with Connection(folder) as client:
        client.send(EXEC, shell="sleep 0.6; echo done", timeout_ms=1200, follow=1)
        client.answer()
        say(folder, FREEZE)
        time.sleep(1)
        say(folder, THAW)
        done = client.follow()
        assert done["stdout"] == b"done\n" and "timed_out" not in done
        assert client.sh("sleep 9", timeout_ms=100)["timed_out"] == 1  # the control


# ── timers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_box_pauses_after_its_time_and_is_deleted_after_more(box: Callable[..., Path]) -> None:
    folder = box(pause_after_ms=200, delete_after_ms=200)
    wait_for(lambda: state(folder)["state"] == "gone")
    assert state(folder)["reason"] == "auto-delete"


def test_timers_can_be_changed_and_cleared(box: Callable[..., Path]) -> None:
    folder = box(pause_after_ms=300)
    assert "pause_in_ms" not in say(folder, TIMERS, pause_after_ms=0)
    time.sleep(0.5)
    assert state(folder)["state"] == "running"
    say(folder, TIMERS, pause_after_ms=100)
    wait_for(lambda: state(folder)["state"] == "paused")
    assert say(folder, TIMERS, delete_after_ms=100000)["delete_in_ms"] <= 100000
    say(folder, TIMERS, delete_after_ms=50)
    wait_for(lambda: state(folder)["state"] == "gone")


def test_idle_means_that_nobody_asks_and_no_command_is_followed(box: Callable[..., Path]) -> None:
    folder = box(idle_ms=250)
    with Connection(folder) as client:
        assert client.sh("sleep 0.6")["exit_code"] == 0
        assert state(folder)["state"] == "running"  # all the while
    wait_for(lambda: state(folder)["state"] == "paused")
    assert state(folder)["reason"] == "idle"


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def bomb(folder: Path, **fields: object) -> None:
    job = start(folder, "python3", "-c", BOMB, **fields)
    wait_for(lambda: len(inside(folder)) >= 40)
    assert len(inside(folder)) <= 100
    with Connection(folder) as client:
        assert client.write("/tmp/during", b"x")["size"] == 1  # work on files goes on
        assert client.ask(SIGNAL, id=job, signo=9, scope=1) == {}
    wait_for(lambda: not inside(folder))
    with Connection(folder) as client:
        assert client.run("true")["exit_code"] == 0


def test_a_fork_bomb_with_a_process_limit_of_its_own(box: Callable[..., Path]) -> None:
    bomb(box(pids_max=60))


def test_a_fork_bomb_in_control_groups(groups: Callable[[str], list[str]], box: Callable[..., Path]) -> None:
    bomb(box(pids_max=60, cgroup=groups("bomb"), limits="cgroup"))


def test_a_fork_bomb_of_the_root_of_a_box(place: Place, box: Callable[..., Path]) -> None:
    if place.uid:
        pytest.skip("an ordinary user has one id to give")
    bomb(box(pids_max=60), user="root")


def test_a_fork_bomb_dies_with_its_box(box: Callable[..., Path]) -> None:
    folder = box(pids_max=60)
    start(folder, "python3", "-c", BOMB)
    wait_for(lambda: len(inside(folder)) >= 40)
    first = int(state(folder)["pid1"])
    say(folder, KILL)
    wait_for(lambda: state(folder)["state"] == "gone")
    assert not alive(first)


HUNGRY = "import time,sys\nn=int(sys.argv[1]); b=bytearray(n)\nfor i in range(0,n,4096): b[i]=1\nprint(len(b))"


def test_memory_over_the_limit_of_a_control_group(groups: Callable[[str], list[str]], box: Callable[..., Path]) -> None:
    folder = box(memory_max=64 << 20, cgroup=groups("memory"), limits="cgroup")
    with Connection(folder) as client:
        done = client.run("python3", "-c", HUNGRY, str(200 << 20))
        assert done["exit_code"] == 137 and done["limit"] == b"memory"
        assert client.run("python3", "-c", HUNGRY, str(20 << 20))["stdout"] == b"%d\n" % (20 << 20)
        killed = client.sh("kill -9 $$")
        assert killed["exit_code"] == 137 and "limit" not in killed  # killed, but not for memory
        assert say(folder, BOX_STATS)["memory"] > 0


SHARED = "import mmap,time\nm=mmap.mmap(-1,{size}<<20)\nfor i in range(0,{size}<<20,4096): m[i]=1\nprint('all',flush=True); time.sleep(60)"
MEMFD = "import os,time\nf=os.memfd_create('x')\nfor i in range({size}): os.write(f,bytes(1<<20))\nprint('all',flush=True); time.sleep(60)"


@pytest.mark.parametrize("way", [SHARED, MEMFD])
def test_memory_over_the_limit_without_control_groups(box: Callable[..., Path], way: str) -> None:
    """What the limit of one process does not count, or several have together."""
    folder = box(memory_max=128 << 20)
    with Connection(folder) as client:
        done = client.run("python3", "-c", way.format(size=300), timeout_ms=20000)
        assert done["exit_code"] == 137 and done["limit"] == b"memory" and "timed_out" not in done
        assert client.run("python3", "-c", way.format(size=30).replace("60)", "0)"))["stdout"] == b"all\n"


def memory(folder: Path) -> int:
    return int(str(say(folder, BOX_STATS)["memory"]))


def test_no_more_processes_go_than_have_to(box: Callable[..., Path]) -> None:
    """One that is killed has its memory for some time still, which must not cost the next one its life."""
    folder = box(memory_max=128 << 20)
    slow = HUNGRY.replace("import time,sys", "import os,time,sys\nos.nice(10)").replace(
        "print(len(b))", "time.sleep(60)"
    )
    busy = os.cpu_count() or 1
    with Connection(folder) as client:
        for _ in range(5):
            spin = client.ask(EXEC, shell=f"for i in $(seq {busy}); do while :; do :; done & done; wait")["id"]
            job = client.ask(EXEC, shell=f"for i in 1 2 3 4; do python3 -c '{slow}' {50 << 20} & done; wait")["id"]
            wait_for(lambda: len(inside(folder)) == 2 + busy + 4 or memory(folder) > 100 << 20)
            wait_for(lambda: len(inside(folder)) == 2 + busy + 2)  # two had to go, and the others stay
            wait_for(lambda: 100 << 20 < memory(folder) < 128 << 20)
            assert len(inside(folder)) == 2 + busy + 2
            for one in (job, spin):
                client.ask(SIGNAL, id=one, signo=9, scope=1)
            wait_for(lambda: not inside(folder))


def test_one_process_gets_no_more_than_the_limit(box: Callable[..., Path]) -> None:
    folder = box(memory_max=128 << 20)
    with Connection(folder) as client:
        assert b"MemoryError" in client.run("python3", "-c", HUNGRY, str(200 << 20))["stderr"]
        assert client.run("python3", "-c", HUNGRY, str(50 << 20))["exit_code"] == 0


def test_too_much_on_disk(box: Callable[..., Path]) -> None:
    folder = box(disk_max=20 << 20)
    with Connection(folder) as client:
        assert client.sh("head -c 5000000 /dev/zero > /workspace/small")["exit_code"] == 0  # the control
        done = client.sh("while head -c 1000000 /dev/zero; do sleep 0.02; done >> /workspace/big", timeout_ms=20000)
        assert done["exit_code"] == 137 and done["limit"] == b"disk" and "timed_out" not in done
        with pytest.raises(BoxError) as told:
            client.write("/workspace/more", b"x")
        assert told.value.code == "disk"
        client.ask(REMOVE, path="/workspace/big")
        wait_for(lambda: say(folder, BOX_STATS)["disk"] < 20 << 20)
        assert client.sh("echo x > /workspace/more")["exit_code"] == 0
        client.write("/workspace/more", b"x")


@pytest.mark.parametrize("hide", ["chmod 0 /tmp/hidden", "true"])
def test_what_is_on_disk_cannot_be_hidden(box: Callable[..., Path], hide: str) -> None:
    folder = box(disk_max=20 << 20)
    with Connection(folder) as client:
        where = "exec 5> /tmp/f; rm /tmp/f; " if hide == "true" else "mkdir /tmp/hidden; exec 5> /tmp/hidden/f; "
        done = client.sh(f"{where}{hide}; while head -c 1000000 /dev/zero; do sleep 0.02; done >&5", timeout_ms=20000)
        assert done.get("limit") == b"disk", done


def test_a_word_of_the_agent_that_a_pause_has_heard_is_not_waited_for(place: Place) -> None:
    """Both are there at once: the pause takes the word, and then nobody says another while the box is frozen."""
    with place.box(disk_max=1 << 26, wake=0) as folder, ExitStack() as stack:
        client = stack.enter_context(Connection(folder))
        client.run("true")
        supervisor = state(folder)["supervisor"]
        for _ in range(5):
            with Connection(folder, "ctl.sock", timeout=5) as control:
                control.ask(STATUS)
                send_signal(supervisor, signal.SIGSTOP)
                try:
                    control.send(FREEZE)
                    client.ask(EXEC, argv=["true"])  # of which the supervisor is told, since the box has a limit
                finally:
                    send_signal(supervisor, signal.SIGCONT)
                assert control.answer()[1]["state"] == b"paused"
                assert control.ask(STATUS)["state"] == b"paused"
                assert control.ask(THAW)["state"] == b"running"
            client = stack.enter_context(Connection(folder))
        assert state(folder)["supervisor"] == supervisor
