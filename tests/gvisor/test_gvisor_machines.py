"""Machines of gVisor: what they are, that memory and files survive on disk, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gloveport import CapabilityError, Sandbox, SandboxGoneError, SandboxPausedError
from gloveport.machines.estate import estate
from gloveport.machines.state import lock_held

from ..machines.conftest import eventually
from .conftest import keepers_alive

HASHING = """
import hashlib, os, sys, threading, time
data = bytearray(os.urandom(1 << 20)) * {mb}
unlinked = open("/tmp/unlinked", "w+"); os.unlink("/tmp/unlinked"); unlinked.write("kept")
read, write = os.pipe(); os.write(write, b"in the pipe")
ticks = 0
def beat():
    global ticks
    while True: ticks += 1; time.sleep(0.01)
threading.Thread(target=beat, daemon=True).start()
while True:
    unlinked.seek(0)
    text = f"{{hashlib.md5(data).hexdigest()}} {{unlinked.read()}} {{ticks}}"
    open("/tmp/told.new", "w").write(text); os.rename("/tmp/told.new", "/tmp/told")
    time.sleep(0.05)
"""


def begin(sandbox, mb):
    sandbox.files.write("/workspace/h.py", HASHING.format(mb=mb))
    sandbox.commands.run("setsid python3 h.py >/tmp/log 2>&1 &", check=True)
    eventually(lambda: sandbox.files.exists("/tmp/told"), 30)
    return told(sandbox)


def told(sandbox):
    digest, kept, ticks = sandbox.files.read_text("/tmp/told").split()
    return digest, kept, int(ticks)


def goes_on(sandbox, before):
    digest, kept, ticks = before
    eventually(lambda: told(sandbox)[2] > ticks, 20)
    assert told(sandbox)[:2] == (digest, kept)


# ── what it is ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_its_kernel_is_not_the_hosts(sandbox):
    assert "gVisor" in sandbox.commands.run("dmesg", user="0").stdout
    assert sandbox.commands.run("uname -r").stdout.strip() != os.uname().release
    assert sandbox.commands.run("id -un; pwd; ls -A /workspace").stdout == "user\n/workspace\n" or os.geteuid() != 0
    assert sandbox.get_info().driver == "gvisor"


def test_nothing_of_the_host_is_there(sandbox, tmp_path):
    (tmp_path / "secret").write_text("host")
    for path in (tmp_path / "secret", "/srv/secret", "/etc/shadow", estate().root):
        assert not sandbox.files.exists(str(path)) or path == "/etc/shadow"
    assert "host" not in sandbox.commands.run("cat /etc/shadow", user="0").stdout
    assert sandbox.commands.run("ls /home /root", user="0").stdout.split() == ["/home:", "user", "/root:"]
    assert sandbox.commands.run("touch /usr/x", user="0").exit_code != 0
    made = sandbox.commands.run("touch /usr/local/bin/x /etc/x /workspace/x && echo made", user="0")
    assert made.stdout == "made\n" and not os.path.exists("/etc/x") and not os.path.exists("/usr/local/bin/x")


def test_it_keeps_no_program_of_the_host_from_being_run(sandbox):
    """gVisor's helper opens what a guest wants to write to, before the guest is refused. The kernel runs no program that is open so."""
    tried = sandbox.commands.run(
        "for i in 1 2 3; do python3 -c \"open('/usr/bin/env', 'ab')\"; done; echo x >>/etc/passwd", user="0"
    )
    assert "Read-only" in tried.stderr and "PermissionError" not in tried.stderr
    assert subprocess.run(["/usr/bin/env", "true"]).returncode == 0
    holders = []
    for pid in keepers_alive(estate().root):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            flags = next(line for line in entry.read_text().splitlines() if line.startswith("flags:"))
            target = os.readlink(f"/proc/{pid}/fd/{entry.name}")
            if int(flags.split()[1], 8) & 3 and target.startswith(("/usr/", str(estate().root / "layers"))):
                holders.append(target)
    assert holders == []


def test_without_a_rule_it_reaches_nothing(sandbox):
    result = sandbox.commands.run("ip -o addr 2>/dev/null | grep -v ' lo ' ; cat /proc/net/dev | grep -c ':'")
    assert result.stdout.strip() == "1"
    code = (
        "import socket\n"
        "for a in ('1.1.1.1', '169.254.169.254', '10.0.0.1'):\n"
        "    try: socket.create_connection((a, 80), 2); print('open')\n"
        "    except OSError as e: print(type(e).__name__)"
    )
    assert "open" not in sandbox.commands.run(["python3", "-c", code]).stdout


def test_without_runsc_it_is_refused(monkeypatch):
    monkeypatch.setenv("GLOVEPORT_RUNSC", "/nowhere/runsc")
    assert Sandbox.capabilities("gvisor").isolation == "none"
    with pytest.raises(CapabilityError, match="runsc"):
        Sandbox.create(driver="gvisor")
    assert os.listdir(estate().root / "boxes") == []


def test_what_is_said_of_it_holds():
    found = Sandbox.capabilities("gvisor")
    assert (found.isolation, found.memory_pause, found.fork, found.net) == ("gvisor", "disk", "memory", "proxy")
    with pytest.raises(CapabilityError, match="fork_files"):
        Sandbox.create(driver="gvisor", require={"fork_files": "relayer"})
    assert found.limits.memory in ("total", "per_process")


# ── written down ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_hundred_mebibytes_survive_on_disk(sandbox):
    before = begin(sandbox, 200)
    sandbox.files.write("/workspace/file", b"f" * 1_000_000)
    running = len(keepers_alive(estate().root))
    sandbox.pause()
    assert sandbox.status == "paused" and len(keepers_alive(estate().root)) < running
    assert sum(p.stat().st_size for p in (estate().folder(sandbox.id) / "memory").iterdir()) > 200 << 20
    sandbox.resume()
    goes_on(sandbox, before)
    assert sandbox.files.read("/workspace/file") == b"f" * 1_000_000
    assert not (estate().folder(sandbox.id) / "memory").exists()


def test_it_is_paused_and_woken_again_and_again(sandbox):
    before = begin(sandbox, 1)
    for _ in range(3):
        sandbox.pause()
        assert sandbox.commands.run("echo awake").stdout == "awake\n"  # to speak to it wakes it
        goes_on(sandbox, before)
        before = told(sandbox)


def test_a_command_that_is_followed_goes_on_after_a_pause(sandbox):
    command = sandbox.commands.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done")
    time.sleep(0.7)
    sandbox.pause()
    sandbox.resume()
    result = command.wait(30)
    assert result.stdout == "".join(f"{i}\n" for i in range(1, 9)) and result.exit_code == 0


def test_it_survives_the_death_of_its_keeper_while_it_is_paused(sandbox):
    before = begin(sandbox, 1)
    sandbox.pause()
    for pid in keepers_alive(estate().root):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lock_held(estate().folder(sandbox.id)))
    assert Sandbox.list(status="paused")[0].id == sandbox.id
    again = Sandbox.connect(sandbox.id)
    assert again.found == "resumed"
    goes_on(again, before)


def test_another_process_finds_it(sandbox):
    before = begin(sandbox, 1)
    sandbox.pause()
    code = f"from gloveport import Sandbox; print(Sandbox.connect({sandbox.id!r}).commands.run('cat /tmp/told').stdout)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.split()[0] == before[0], done.stderr


def test_a_machine_whose_keeper_was_killed_while_it_ran_is_gone_whole():
    with Sandbox.create("gvisor", driver="gvisor") as sandbox:
        assert keepers_alive(estate().root)
        for pid in keepers_alive(estate().root):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it may have ended with the first one
                if b"gvisor.keeper" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        eventually(lambda: not keepers_alive(estate().root))
        with pytest.raises(SandboxGoneError) as caught:
            sandbox.commands.run("true")
        assert caught.value.reason == "crashed"


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_forks_have_its_memory_and_go_their_own_ways(sandbox):
    before = begin(sandbox, 20)
    random = "head -c 8 /dev/urandom | od -An -tx8"
    forks = sandbox.fork(2)
    try:
        for one in (sandbox, *forks):
            goes_on(one, before)
        for number, one in enumerate((sandbox, *forks)):
            one.files.write("/workspace/mine", str(number))
        assert [one.files.read_text("/workspace/mine") for one in (sandbox, *forks)] == ["0", "1", "2"]
        assert len({one.commands.run(random).stdout for one in (sandbox, *forks)}) == 3
        sandbox.kill()
        goes_on(forks[0], told(forks[0]))
    finally:
        for fork in forks:
            fork.kill()


def test_its_files_alone_are_not_copied(sandbox):
    with pytest.raises(CapabilityError, match="fork"):
        sandbox.snapshot()
    assert sandbox.commands.run("echo well").stdout == "well\n"


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_its_clocks():
    with Sandbox.create("gvisor", driver="gvisor", idle_seconds=1) as sandbox:
        sandbox.commands.run("sleep 2.5", check=True)  # is not idle
        eventually(lambda: sandbox.status == "paused", 20)
        assert sandbox.get_info().reason == "idle"
        assert sandbox.commands.run("echo awake").stdout == "awake\n"
        sandbox.update(idle_seconds=None, timeout_seconds=0.5, auto_delete_seconds=0.5)
        eventually(lambda: sandbox.id not in {info.id for info in Sandbox.list(status=["active", "paused"])}, 20)


def test_one_that_does_not_wake_by_itself_says_so():
    with Sandbox.create("gvisor", driver="gvisor", auto_resume=False) as sandbox:
        sandbox.pause()
        with pytest.raises(SandboxPausedError):
            sandbox.commands.run("true")
        sandbox.resume()
        assert sandbox.commands.run("echo awake").stdout == "awake\n"


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_is_limited():
    if Sandbox.capabilities("gvisor").limits.memory != "total":
        pytest.skip("the memory of a whole machine is not limited here")
    hungry = "import time\nx = bytearray(b'x') * (64 << 20)\ny = bytearray(b'x') * ({mb} << 20)\nprint(len(y) >> 20)"
    with Sandbox.create("gvisor", driver="gvisor", memory_mb=None) as sandbox:
        assert sandbox.commands.run(["python3", "-c", hungry.format(mb=600)]).stdout == "600\n"
    with Sandbox.create("gvisor", driver="gvisor", memory_mb=128) as sandbox:
        try:
            result = sandbox.commands.run(["python3", "-c", hungry.format(mb=600)])
            assert result.exit_code != 0 and "600" not in result.stdout
        except SandboxGoneError as error:
            assert error.reason == "memory"  # the kernel ended it as a whole


# ── what a machine may not do to its keeper ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["link", "folder"])
def test_a_socket_that_is_none_leads_nowhere(sandbox, tmp_path, what):
    """Its root replaces the agent's socket by a link to one of the host's."""
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        listener.settimeout(1)
        make = {
            "link": f"ln -s {tmp_path / 's'} agent.sock",
            "folder": "mkdir agent.sock",
        }[what]
        sandbox.commands.run(f"cd /.gloveport/run && rm -f agent.sock && {make}", user="0")
        other = Sandbox.connect(sandbox.id)
        with pytest.raises(Exception, match="closed|answer|machine"):
            other.commands.run("true", timeout_seconds=2)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert sandbox.kill()


def test_what_it_shares_with_the_host_is_small(sandbox):
    """Whatever its root puts there, in how many files and folders: it is full, and the machine goes on."""
    sandbox.commands.run(
        "cd /.gloveport/run && rm -rf d && mkdir d && head -c 4M /dev/zero >d/some", user="0", check=True
    )
    result = sandbox.commands.run("cd /.gloveport/run/d && cat /dev/zero >big", user="0")
    assert result.exit_code != 0 and "No space left" in result.stderr
    many = "import os\nfor n in range(3000): os.close(os.open(f'/.gloveport/run/d/{n}', os.O_CREAT))"
    result = sandbox.commands.run(["python3", "-c", f"import os; os.unlink('/.gloveport/run/d/big')\n{many}"], user="0")
    assert result.exit_code != 0 and "No space left" in result.stderr
    sandbox.commands.run("rm -rf /.gloveport/run/d", user="0", check=True)
    sandbox.pause()
    assert sandbox.commands.run("echo awake").stdout == "awake\n"
