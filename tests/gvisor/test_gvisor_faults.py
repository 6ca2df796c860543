"""What goes wrong with machines of gVisor: keepers that die at a bad moment, disks that are full, many that want the same."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gloveport import Sandbox, SandboxError, SandboxGoneError, SandboxNotFoundError, SandboxPausedError
from gloveport.machines.estate import estate
from gloveport.machines.state import lock_held

from ..machines.conftest import eventually, groups_left
from .conftest import keepers_alive
from .test_gvisor_machines import begin, goes_on, told


def folder_of(sandbox):
    return estate().folder(sandbox.id)


def keeper_of(sandbox):
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if b"gvisor.keeper" in line and os.fsencode(folder_of(sandbox)) in line:
                return int(entry)
    raise AssertionError("it has no keeper")


def processes_of(sandbox):
    return keepers_alive(folder_of(sandbox))


def kill_keeper(sandbox):
    os.kill(keeper_of(sandbox), signal.SIGKILL)
    eventually(lambda: not lock_held(folder_of(sandbox)) and not processes_of(sandbox))


def pausing(sandbox):
    """A thread that pauses it, and what came of that."""
    said = []

    def act():
        try:
            sandbox.pause()
            said.append("paused")
        except SandboxError as error:
            said.append(type(error).__name__)

    thread = threading.Thread(target=act)
    thread.start()
    return thread, said


def test_a_keeper_that_dies_while_it_writes_down_leaves_nothing(state):
    """Its files were in memory: it is gone whole, and nobody takes the half of it for a machine."""
    with Sandbox.create("gvisor", driver="gvisor") as sandbox:
        begin(sandbox, 300)
        thread, said = pausing(sandbox)
        eventually(lambda: (folder_of(sandbox) / "memory.new").exists())
        kill_keeper(sandbox)
        thread.join(60)
        assert said and said != ["paused"]
        with pytest.raises(SandboxNotFoundError):
            Sandbox.connect(sandbox.id)
        assert not folder_of(sandbox).exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_keeper_that_dies_around_the_end_of_a_pause(sandbox, when):
    """The folder `memory` decides: it is there when it is whole."""
    before = begin(sandbox, 1)
    sandbox.pause()
    kill_keeper(sandbox)
    state = folder_of(sandbox) / "state"
    if when == "before":  # the state is written after the memory
        state.write_text(state.read_text().replace("state=paused", "state=running"))
    (folder_of(sandbox) / "memory.new").mkdir()
    assert sandbox.status == "paused"
    goes_on(Sandbox.connect(sandbox.id), before)
    assert not list(folder_of(sandbox).glob("memory*"))


def test_what_was_used_is_not_used_again(sandbox):
    """A keeper that dies while it removes what it has started the machine from: the machine ran, so its past is over."""
    begin(sandbox, 1)
    sandbox.pause()
    kill_keeper(sandbox)
    (folder_of(sandbox) / "memory").rename(folder_of(sandbox) / "memory.used")
    with pytest.raises(SandboxNotFoundError):
        Sandbox.connect(sandbox.id)


def test_a_keeper_that_dies_while_it_wakes_it_has_lost_nothing(sandbox):
    before = begin(sandbox, 200)
    sandbox.pause()
    waking = threading.Thread(target=lambda: _quietly(sandbox.resume))
    keeper = keeper_of(sandbox)
    os.kill(keeper, signal.SIGSTOP)
    waking.start()
    time.sleep(0.2)
    os.kill(keeper, signal.SIGCONT)
    eventually(
        lambda: any(b"restore" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _still(processes_of(sandbox)))
    )
    os.kill(keeper, signal.SIGKILL)
    waking.join(60)
    eventually(lambda: not processes_of(sandbox))
    if (folder_of(sandbox) / "memory").exists():  # else it had been fast
        assert sandbox.status == "paused"
        goes_on(Sandbox.connect(sandbox.id), before)


def _quietly(act):
    try:
        act()
    except SandboxError:
        pass


def _still(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}/cmdline")]


def test_one_that_cannot_be_restored_stays_as_it_is(sandbox):
    """And says why, each time."""
    sandbox.pause()
    (image,) = (folder_of(sandbox) / "memory").glob("checkpoint*.img")
    whole = image.read_bytes()
    image.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(SandboxError, match="runsc"):
            sandbox.resume()
        assert sandbox.status == "paused"
        assert processes_of(sandbox) == [keeper_of(sandbox)]
    image.write_bytes(whole)
    sandbox.resume()
    assert sandbox.commands.run("echo awake").stdout == "awake\n"


def test_a_disk_that_is_full_while_it_is_written_down(sandbox, tmp_path):
    """It is not paused, and goes on."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    before = begin(sandbox, 60)
    place = folder_of(sandbox)
    keeper = keeper_of(sandbox)
    code = (
        "import ctypes, os, sys\n"
        "fd = os.open(f'/proc/{sys.argv[1]}/ns/mnt', os.O_RDONLY)\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert not libc.setns(fd, 0), ctypes.get_errno()\n"
        "os.makedirs(sys.argv[2], exist_ok=True)\n"
        "assert not libc.mount(b'tmpfs', sys.argv[2].encode(), b'tmpfs', 0, b'size=8m'), ctypes.get_errno()\n"
    )
    # Only the keeper sees it.
    (place / "memory.new").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(keeper), str(place / "memory.new")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(SandboxError, match="checkpoint failed.*space"):
        sandbox.pause()
    assert sandbox.status == "active"
    goes_on(sandbox, before)
    assert not (place / "memory").exists()


def test_two_that_wake_it_at_once_wake_one(sandbox):
    before = begin(sandbox, 20)
    for kill in (False, True):
        sandbox.pause()
        if kill:
            kill_keeper(sandbox)
        code = f"from gloveport import Sandbox; print(Sandbox.connect({sandbox.id!r}).commands.run('cat /tmp/told').stdout)"
        both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = [process.communicate(timeout=60)[0].split()[0] for process in both]
        assert said == [before[0]] * 3
        assert (
            sum(b"runsc-sandbox" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _still(processes_of(sandbox)))
            == 1
        )
        goes_on(sandbox, before)


def test_clients_that_come_at_once_wake_one(sandbox):
    sandbox.pause()
    others = [Sandbox.connect(sandbox.id) for _ in range(1)]
    sandbox.pause()
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda n: others[0].commands.run(f"echo {n}").stdout, range(8)))
    assert said == [f"{n}\n" for n in range(8)]


def test_a_kill_does_not_wait_for_a_pause(state):
    sandbox = Sandbox.create("gvisor", driver="gvisor")
    begin(sandbox, 300)
    thread, said = pausing(sandbox)
    eventually(lambda: (folder_of(sandbox) / "memory.new").exists() or said)
    # By the driver: handles wait for each other.
    estate().driver(sandbox._box.record).kill(folder_of(sandbox), "killed")
    thread.join(60)
    assert processes_of(sandbox) == []
    sandbox.kill()
    assert not folder_of(sandbox).exists() and groups_left(estate().root, [sandbox.id]) == []


def test_somebody_looks_at_its_lock_while_it_starts(sandbox):
    before = begin(sandbox, 1)
    sandbox.pause()
    kill_keeper(sandbox)
    descriptor = os.open(folder_of(sandbox) / "lock", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    looking = threading.Timer(0.7, os.close, [descriptor])
    looking.start()
    try:
        goes_on(Sandbox.connect(sandbox.id), before)
    finally:
        looking.join()


def test_its_limits_are_there_after_a_restart_of_the_host(state):
    """Which takes the control groups with it."""
    if Sandbox.capabilities("gvisor").limits.memory != "total":
        pytest.skip("the memory of a whole machine is not limited here")
    with Sandbox.create("gvisor", driver="gvisor", memory_mb=256) as sandbox:

        def limits():
            found = []
            for parent in estate().drivers["gvisor"].groups.parents:
                for name in ("memory.limit_in_bytes", "memory.max"):
                    path = parent / sandbox.id / name
                    if path.exists():
                        found.append(path.read_text())
            return found

        before = limits()
        assert before
        sandbox.pause()
        kill_keeper(sandbox)
        for parent in estate().drivers["gvisor"].groups.parents:
            eventually(lambda parent=parent: _removed(parent / sandbox.id))
        Sandbox.connect(sandbox.id)
        assert limits() == before


def _removed(path):
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def test_its_kernel_dies(state):
    with Sandbox.create("gvisor", driver="gvisor") as sandbox:
        for pid in processes_of(sandbox):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"runsc-sandbox"):
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxGoneError):
            sandbox.commands.run("true")
        eventually(lambda: not processes_of(sandbox))
        assert sandbox.status == "stopped"


def test_a_link_in_place_of_what_wakes_the_agent(sandbox, tmp_path):
    """Nothing is made where it leads to."""
    target = tmp_path / "made-by-the-host"
    sandbox.commands.run(f"ln -s {target} /.gloveport/run/agent.sock.go", user="0", check=True)
    script = f"while :; do ln -s {target} /.gloveport/run/agent.sock.go; sleep 0.001; done"
    sandbox.commands.run(f"setsid sh -c '{script}' >/dev/null 2>&1 &", user="0", check=True)
    for _ in range(3):
        _quietly(sandbox.pause)
        _quietly(sandbox.resume)
    assert not target.exists()


def test_names_that_are_folders_hurt_the_machine_alone(sandbox):
    sandbox.commands.run("cd /.gloveport/run && mkdir agent.sock.go", user="0", check=True)
    _quietly(sandbox.pause)
    assert sandbox.kill()
    assert not folder_of(sandbox).exists()


def test_nothing_of_runsc_is_left_in_its_folder(sandbox):
    before = begin(sandbox, 1)
    sandbox.pause()
    assert sorted(
        p.name for p in folder_of(sandbox).iterdir() if p.name in ("runsc", "memory", "memory.new", "memory.used")
    ) == ["memory"]
    assert processes_of(sandbox) == [keeper_of(sandbox)]
    sandbox.resume()
    goes_on(sandbox, before)
    assert told(sandbox)[0] == before[0]


def test_clocks_outlive_their_keeper(state):
    """What was asked for holds for the next keeper, too, and what nobody watches is deleted by the next one who looks."""
    sandbox = Sandbox.create("gvisor", driver="gvisor")
    sandbox.update(auto_resume=False)
    sandbox.pause()
    kill_keeper(sandbox)
    sandbox.update(idle_seconds=600)  # of one that has no keeper now
    sandbox.resume()
    sandbox.pause()
    with pytest.raises(SandboxPausedError):
        sandbox.commands.run("true")
    kill_keeper(sandbox)
    sandbox.update(auto_delete_seconds=600)
    assert estate().sweep() == []
    assert sandbox.status == "paused"
    sandbox.update(auto_delete_seconds=0.01)
    time.sleep(0.1)
    assert estate().sweep() == [sandbox.id]
    assert not folder_of(sandbox).exists()
