"""What users of sandboxes with a shell report: thirty cases, each as somebody met it, and what must happen.

| case | here | more |
|---|---|---|
| C-01 a command leaves something in the background | `test_c01` | `test_commands.py::test_what_goes_on_in_the_background…` |
| C-02 a timeout ends the shell only | `test_c02` | `test_commands.py::test_a_timeout_ends_the_whole_tree_and_keeps_the_output` |
| C-03 a program reads its input | `test_c03` | `test_commands.py::test_input_is_empty` |
| C-04 here-documents, open quotes, `exit` | `test_c04` | |
| C-05 `cd` and `export` between commands | `test_c05` | `test_handles.py::test_a_terminal_in_the_hands_of_another_process` |
| C-06 commands at once | `test_c06` | `test_commands.py::test_threads_at_once` |
| C-07 bytes that are no text | `test_c07` | `test_commands.py::test_bytes_that_are_no_text` |
| C-08 long output | `test_c08` | `test_commands.py::test_output_is_bounded_at_both_ends` |
| C-09 silence | `test_c09` | |
| C-10 large files, odd names | `test_c10` | `test_files.py::test_sizes` |
| C-11 a full disk | `test_c11` | `test_limits.py::test_disk` |
| C-12 links that lead out | `test_c12` | `test_files.py::test_links_lead_nowhere_else` |
| C-13 archives whose members escape | `test_c13` | `test_files.py::test_what_comes_down_stays_in_its_place` |
| C-14 owners | `test_c14` | `test_files.py::test_it_is_written_as_the_machines_user` |
| C-15 secrets of the host in the environment | `test_c15` | `test_commands.py::test_nothing_of_the_hosts_environment` |
| C-16 litter in the project | `test_c16` | |
| C-17 locks, shared memory, pools of processes | `test_c17` | |
| C-18 the second pause | `test_c18` | `test_lifecycle.py::test_memory_is_kept_while_it_is_paused` |
| C-19 connect right after pause | `test_c19` | `test_lifecycle.py::test_several_processes_fight_for_one` |
| C-20 kill while it wakes | `test_c20` | `test_lifecycle.py::test_as_a_model` |
| C-21 the idle timer and work | `test_c21` | `tests/box/test_box_faults.py::test_idle_means_that_nobody_asks_and_no_command_is_followed` |
| C-22 a dead machine that says it is ready | `test_c22` | `test_lifecycle.py::test_a_dead_holder` |
| C-23 cancelled while it is made | `test_c23` | `test_handles.py::test_a_create_that_is_cancelled_leaves_nothing` |
| C-24 zombies | `test_c24` | |
| C-25 the clock after a pause | `test_c25` | `tests/box/test_box_faults.py::test_frozen_time_is_not_of_a_timeout` |
| C-26 one name is checked, another is used | | `tests/network/boxes/test_box_field_cases.py::test_c26` |
| C-27 questions for names carry data out | | `tests/network/boxes/test_box_field_cases.py::test_c27`, `test_box_inside.py::test_names` |
| C-28 private addresses in disguise | | `tests/network/boxes/test_box_field_cases.py::test_c28`, `test_box_rules.py::test_rules` |
| C-29 programs that ignore the proxy | | `tests/network/boxes/test_box_packages.py::test_by_a_rule_for_the_domain` |
| C-30 no isolation here | `test_c30` | `test_limits.py::test_a_host_without_isolation_is_told` |
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import os
import shutil
import signal
import subprocess
import tarfile
import threading
import time

import pytest

from gloveport import AsyncSandbox, Sandbox
from gloveport.errors import (
    CapabilityError,
    GloveportError,
    LimitExceededError,
    SandboxGoneError,
    SandboxNotFoundError,
)
from gloveport.machines.estate import estate

from ..box.places import alive
from .conftest import boxes_alive, eventually


def timed(call):
    began = time.monotonic()
    return call(), time.monotonic() - began


def test_c01(sandbox):
    run = sandbox.commands.run
    result, seconds = timed(lambda: run("sleep 300 & echo started", timeout_seconds=60))
    assert (result.stdout, result.exit_code) == ("started\n", 0) and seconds < 30
    job = "(while :; do echo tick; sleep 0.2; done) & sleep 0.5; echo foreground done; exit 3"
    result, seconds = timed(lambda: run(job, timeout_seconds=60))
    assert "foreground done\n" in result.stdout and result.exit_code == 3 and not result.timed_out and seconds < 30
    result = run(
        "nohup python3 -m http.server 8123 >/dev/null 2>&1 & echo $! > pid; sleep 0.3; echo up", timeout_seconds=60
    )
    assert (result.stdout, result.exit_code) == ("up\n", 0)
    assert run("kill $(cat pid) && echo killed").stdout == "killed\n"  # it went on until then
    assert run("echo next").stdout == "next\n"  # and nothing of the others is in it


def test_c02(sandbox):
    late = "(trap '' TERM; for i in $(seq 400); do sleep 0.05; echo $i > late.txt; done) & wait"
    result, seconds = timed(lambda: sandbox.commands.run(late, timeout_seconds=1))
    assert result.timed_out and seconds < 20
    before = sandbox.files.read_text("/workspace/late.txt")
    time.sleep(0.3)
    assert before and sandbox.files.read_text("/workspace/late.txt") == before
    result = sandbox.commands.run("echo partial; sleep 30", timeout_seconds=1)
    assert (result.stdout, result.timed_out) == ("partial\n", True)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat; echo rc=$?", "rc=0\n"),
        ("read -r x; echo got=$x", "got=\n"),
        ("python3 -c 'input()' 2>/dev/null; echo rc=$?", "rc=1\n"),
        ("grep -r needle . ; echo rc=$?", "./a.txt:needle\nrc=0\n"),
        ("test -t 0 && echo tty || echo no-tty", "no-tty\n"),
        ("echo $CI $TERM $PAGER $GIT_TERMINAL_PROMPT", "1 dumb cat 0\n"),
    ],
)
def test_c03(shared, command, said):
    shared.files.write("/workspace/c03/a.txt", "needle\n")
    result = shared.commands.run(command, cwd="/workspace/c03", timeout_seconds=30)
    assert (result.stdout, result.timed_out) == (said, False)


def test_c04(sandbox):
    run = sandbox.commands.run
    run("cat > f.txt <<'EOF'\nline $HOME\nEOF", timeout_seconds=30)
    assert run("cat f.txt").stdout == "line $HOME\n"
    for command, out, code in (
        ("python3 - <<'PY'\nprint('first')\nPY\necho second", "first\nsecond\n", 0),
        ("echo 'unbalanced", "", 2),
        ("if true; then echo open", "", 2),
        ("echo done # comment", "done\n", 0),
        ("for i in 1 2; do\n echo $i\ndone", "1\n2\n", 0),
        ("exit 5", "", 5),
        ("echo after exit", "after exit\n", 0),
        ("set -e; false", "", 1),
        ("echo after set -e", "after set -e\n", 0),
        ("echo '__END 0'", "__END 0\n", 0),
    ):
        result = run(command, timeout_seconds=30)
        assert (result.stdout, result.exit_code, result.timed_out) == (out, code, False), command


def test_c05(sandbox):
    """A command begins anew; a shell that is kept open remembers, also after a command in it was interrupted."""
    sandbox.commands.run("mkdir -p sub && cd sub && export STAGE=two")
    assert sandbox.commands.run("basename $PWD; echo [$STAGE]").stdout == "workspace\n[]\n"
    shell = sandbox.commands.start(["bash", "--norc"], stdin=True)
    shell.stdin.write("cd sub; export STAGE=two; greet() { echo hi; }\n( sleep 30 & echo $! > /tmp/pid; wait )\n")
    eventually(lambda: sandbox.files.exists("/tmp/pid") and sandbox.files.read("/tmp/pid"))
    sandbox.commands.run("kill $(cat /tmp/pid)")
    shell.stdin.write("basename $PWD; echo $STAGE; greet; exit 7\n")
    result = shell.wait(30)
    assert (result.stdout, result.exit_code) == ("sub\ntwo\nhi\n", 7)


def test_c06(shared):
    def go(n):
        return shared.commands.run(f"for i in 1 2 3; do echo {n}$i; sleep 0.1; done; (exit {n})", timeout_seconds=60)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for n, result in zip((1, 2, 3), pool.map(go, (1, 2, 3)), strict=True):
            assert (result.stdout, result.exit_code) == (f"{n}1\n{n}2\n{n}3\n", n)


def test_c07(shared):
    run = shared.commands.run
    result = run(r"printf 'a\360b\n'; exit 4")
    assert (result.stdout, result.exit_code) == ("a\ufffdb\n", 4)
    assert run("head -c 3000 /dev/urandom; echo; echo end").stdout.endswith("\nend\n")
    raw = []
    result = run(
        r"printf '\342\202'; sleep 0.3; printf '\254\n'; printf 'nul:\000:\n'",
        on_data=lambda *told: raw.append(told),
    )
    assert result.stdout == "€\nnul:\0:\n"
    assert b"".join(data for told in raw for _, data in told) == "€\nnul:\0:\n".encode()


def test_c08(shared):
    run = shared.commands.run
    result = run("echo BEGIN; seq 200000; echo THE ERROR >&2; echo LAST; exit 1")
    assert result.stdout.startswith("BEGIN\n") and result.stdout.endswith("\nLAST\n") and len(result.stdout) < 300_000
    assert (result.stderr, result.exit_code, result.truncated) == ("THE ERROR\n", 1, True)
    long = run("head -c 3000000 /dev/zero | tr '\\0' x; echo")
    assert long.truncated and len(long.stdout) < 300_000
    wide = run("for i in $(seq 60000); do printf 'é€😀'; done", max_output_bytes=10_001)
    assert wide.truncated and "\ufffd" not in wide.stdout
    started = shared.commands.start("seq 50000")  # the way to the rest: by its id
    assert "".join(text for _, text in shared.commands.attach(started.id).output()).endswith("\n50000\n")


def test_c09(sandbox):
    assert sandbox.commands.run("sleep 3; echo built", timeout_seconds=60).stdout == "built\n"
    result = sandbox.commands.run("sleep 60", timeout_seconds=1)
    assert (result.timed_out, result.exit_code) == (True, 124)
    job = sandbox.commands.start("sleep 0.5; echo later")
    assert Sandbox.connect(sandbox.id).commands.attach(job.id).wait(60).stdout == "later\n"


@pytest.mark.parametrize("size", [0, 1, 65_536, 131_072, 1 << 20, 48 << 20])
def test_c10(shared, size):
    blob = os.urandom(min(size, 1 << 20)) * max(1, size >> 20)
    assert shared.files.write("/workspace/c10/x.bin", blob) == size
    assert shared.files.read("/workspace/c10/x.bin", max_bytes=size + 1) == blob


@pytest.mark.parametrize(
    "name", ['it\'s "here".txt', "-rf", "$(touch pwned)", "a b\tc", "e\u0301 \U0001f600.md", "x" * 255]
)
def test_c10_names(shared, name):
    shared.files.write(f"/workspace/names/{name}", "hello")
    assert shared.files.read_text(f"/workspace/names/{name}") == "hello"
    found = [entry.name for entry in shared.files.list("/workspace/names")]
    assert name in found and "pwned" not in found
    assert not shared.files.exists("/workspace/pwned")


def test_c11():
    if Sandbox.capabilities().limits.disk == "none":
        pytest.skip("the host counts no files")
    with Sandbox.create(disk_mb=64) as sandbox:
        sandbox.files.write("/workspace/keep.txt", "precious")

        def overfull():
            try:
                sandbox.files.write("/workspace/keep.txt", (b"z" * (1 << 20) for _ in range(3000)))
            except LimitExceededError as error:
                assert error.limit == "disk"
                return True
            return False

        assert overfull()
        assert sandbox.files.read("/workspace/keep.txt") == b"precious"
        assert sandbox.commands.run("rm -f big .*.new; echo cleanup possible").stdout == "cleanup possible\n"

        def usable():
            try:
                return sandbox.files.write("/workspace/again", "x") == 1
            except LimitExceededError:
                return False

        eventually(usable)


def test_c12(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("host secret")
    sandbox.commands.run(
        f"ln -s {secret}/key leak; ln -s {secret} dir; ln -s /proc/self/root root; mkdir ok; "
        "ln -s ok/inner good; echo fine > ok/inner; ln -s loop loop",
        check=True,
    )
    for path in ("leak", "dir/key", f"root{secret}/key", "loop", "ok/inner/"):
        with pytest.raises((OSError, GloveportError)):
            sandbox.files.read_text(f"/workspace/{path}")
    for path in ("/workspace/ok/../leak", "/workspace/" + "../" * 12 + str(secret).lstrip("/") + "/key"):
        with pytest.raises(GloveportError):
            sandbox.files.read_text(path)
    assert sandbox.files.read_text("/workspace/good") == "fine\n"
    with pytest.raises((OSError, GloveportError)):
        sandbox.files.write("/workspace/dir/new-file", "x", user="root")
        raise OSError("it was written inside of the machine, where that directory does not lead out")
    assert os.listdir(secret) == ["key"]
    flip = sandbox.commands.start(f"while :; do ln -sfn ok swap; ln -sfn {secret} swap; done")
    fine = 0
    for _ in range(400):
        try:
            assert sandbox.files.read_text("/workspace/swap/inner") == "fine\n"
            fine += 1
        except FileNotFoundError:
            pass
        with pytest.raises((OSError, GloveportError)):
            sandbox.files.read_text("/workspace/swap/key")
    flip.kill()
    assert fine > 0  # the control: it was where it should be at times


def test_c13(shared, tmp_path):
    shared.commands.run(
        "mkdir -p t/sub && echo data > t/sub/f && ln -s sub/f t/rel && ln -s /usr/bin/python3 t/abs && ln -s nowhere t/dangling && "
        "mkfifo t/pipe && chmod 640 t/sub/f && ln t/sub/f t/hard",
        check=True,
    )
    dest, outside = tmp_path / "d", tmp_path / "outside"
    outside.mkdir()
    told = shared.files.download_dir("/workspace/t", dest)
    assert {"hard", "rel", "sub"} <= set(os.listdir(dest)) <= {"hard", "rel", "sub", "dangling"}
    assert (dest / "hard").read_text() == "data\n" and (dest / "sub/f").stat().st_mode & 0o777 == 0o640
    skipped = {name.rpartition("/")[2] for name, _ in told.skipped}
    assert "abs" in skipped and skipped | set(os.listdir(dest)) >= {"pipe", "dangling"}
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as archive:
        for name, kind, link in (
            ("../up.txt", tarfile.REGTYPE, ""),
            (f"{outside}/abs.txt", tarfile.REGTYPE, ""),
            ("ln", tarfile.SYMTYPE, str(outside)),
            ("ln/through.txt", tarfile.REGTYPE, ""),
            ("h", tarfile.LNKTYPE, "/etc/passwd"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"evil"))
    from gloveport.host.machines.archives import unpack

    told = unpack([evil.getvalue()], dest, max_bytes=10_000)
    assert os.listdir(outside) == [] and not (tmp_path / "up.txt").exists()
    assert told is not None


def test_c14(sandbox):
    sandbox.files.write("/workspace/repo/a.txt", "1\n")
    said = sandbox.commands.run(
        "id -un; cd repo && echo 2 >> a.txt && rm a.txt && echo removed; touch /usr/x 2>/dev/null || echo refused"
    )
    assert said.stdout == "user\nremoved\nrefused\n"
    if sandbox.commands.run("command -v git").ok:
        git = "cd repo && echo 1 > a.txt && git init -q . && git add . && "
        git += "git -c user.name=t -c user.email=t@t commit -qm one && git log --oneline | wc -l"
        result = sandbox.commands.run(git)
        assert (result.stdout, "dubious" in result.stderr) == ("1\n", False)
    home = sandbox.commands.run(
        "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'; echo HOME=$HOME; touch $HOME/ok && echo writable",
        timeout_seconds=60,
    )
    assert home.stdout == "1\nHOME=/home/user\nwritable\n"


def test_c15(monkeypatch):
    for name, value in {
        "OPENAI_API_KEY": "sk-test",
        "SSH_AUTH_SOCK": "/run/agent.sock",
        "DATABASE_URL": "postgres://u:p@h/db",
        "KUBECONFIG": "/k",
    }.items():
        monkeypatch.setenv(name, value)
    assert (
        subprocess.run(
            "env | grep -cE 'sk-test|agent.sock|postgres|KUBECONFIG'", shell=True, capture_output=True
        ).stdout
        == b"4\n"
    )  # the control
    with Sandbox.create() as sandbox:
        run = sandbox.commands.run
        assert run("env | grep -cE 'sk-test|agent.sock|postgres|KUBECONFIG'").stdout == "0\n"
        shown = "tr '\\0' '\\n' < {} 2>/dev/null | grep -c 'sk-[t]est'"
        said = run(
            "; ".join(shown.format(one) for one in ("/proc/1/environ", "/proc/$PPID/environ"))
            + "; cat /proc/*/environ 2>/dev/null | grep -c 'sk-[t]est'"
        )
        assert said.stdout.split() == ["0", "0", "0"]
        said = run("echo $A; ls ~/.ssh ~/.aws ~/.config/gcloud 2>/dev/null | wc -l", env={"A": "passed"})
        assert said.stdout == "passed\n0\n"


def test_c16(sandbox):
    if not sandbox.commands.run("command -v git").ok:
        pytest.skip("needs git")
    run = sandbox.commands.run
    run("git init -q . && echo x > f && git add f && git -c user.name=t -c user.email=t@t commit -qm 1", check=True)
    look = "git status --porcelain; ls -A | sort | tr '\\n' ' '"
    assert run(look).stdout == ".git f "
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(run, "sleep 1")
        assert run(look).stdout == ".git f "
        other.result()
    for pid in boxes_alive(estate().folder(sandbox.id)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    eventually(lambda: sandbox.status == "stopped")
    assert Sandbox.connect(sandbox.id).commands.run(look).stdout == ".git f "


PROGRAM = """
import multiprocessing as mp, concurrent.futures as cf, tempfile, socket, os
def f(x): return x + 1
if __name__ == '__main__':
    for how in ('fork', 'spawn', 'forkserver'):
        with cf.ProcessPoolExecutor(2, mp_context=mp.get_context(how)) as ex: print(how, list(ex.map(f, [1, 2])))
    from multiprocessing import shared_memory; s = shared_memory.SharedMemory(create=True, size=1 << 20)
    s.close(); s.unlink(); print('shm')
    a, b = socket.socketpair(); s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('sockets')
    print(os.cpu_count() >= 1, tempfile.mkdtemp()[:5], os.path.exists('/dev/null'), len(os.urandom(8)))
"""


def test_c17(sandbox):
    sandbox.files.write("/workspace/p.py", PROGRAM)
    result = sandbox.commands.run("python3 p.py", timeout_seconds=100)
    assert result.stdout == "fork [2, 3]\nspawn [2, 3]\nforkserver [2, 3]\nshm\nsockets\nTrue /tmp/ True 8\n", (
        result.stderr
    )
    assert sandbox.commands.run("(sleep 0.1; echo sub) | cat; ls /proc/self/fd | wc -l").stdout == "sub\n4\n"
    if sandbox.commands.run("command -v node").ok:
        worker = 'node -e \'new (require("worker_threads").Worker)("1", {eval: true}).on("exit", c => console.log("worker", c))\''
        assert sandbox.commands.run(worker, timeout_seconds=100).stdout == "worker 0\n"


def test_c18(sandbox):
    sandbox.commands.run(
        "nohup sh -c 'i=0; while :; do i=$((i+1)); echo $i > c.new; mv c.new counter; sleep 0.05; done' >/dev/null 2>&1 &"
    )
    machine, counted = sandbox, 0
    for n in range(5):
        machine.files.write(f"/workspace/round{n}.txt", str(n))
        machine.commands.run(
            f"mkdir -p deep/{n} && dd if=/dev/urandom of=deep/{n}/b bs=1M count=3 2>/dev/null && sha256sum deep/{n}/b > deep/{n}/sum && "
            f"rm -f round{n - 1}.gone && touch round{n}.gone",
            check=True,
        )
        machine.pause()
        machine = Sandbox.connect(sandbox.id)
        assert machine.found == "resumed"
        said = machine.commands.run(
            "ls round*.txt | wc -l; ls *.gone | wc -l; sha256sum -c --quiet deep/*/sum && echo ok"
        ).stdout
        assert said == f"{n + 1}\n1\nok\n"
        eventually(lambda: int(machine.files.read_text("/workspace/counter")) > counted)
        counted = int(machine.files.read_text("/workspace/counter"))


def test_c19(state):
    with Sandbox.create() as machine:
        machine.files.write("/workspace/a", "1")
        for wait in (True, False):
            for _ in range(20):
                machine.pause(wait=wait)
                machine = Sandbox.connect(machine.id)
                assert (
                    machine.files.read_text("/workspace/a") == "1" and machine.commands.run("echo ok").stdout == "ok\n"
                )
        machine.pause()
        machine.pause()
        machine.pause(wait=False)
        assert machine.kill()
        with pytest.raises(SandboxNotFoundError):
            Sandbox.connect(machine.id)
    with Sandbox.create() as other:
        other.pause()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            codes = pool.map(lambda _: Sandbox.connect(other.id).commands.run("echo $$").exit_code, range(8))
            assert set(codes) == {0}
        assert other.get_info().starts == 1


def test_c20(state):
    for n in range(10):
        machine = Sandbox.create(memory_mb=64)
        machine.pause()

        def wake(id=machine.id):  # noqa: A002
            try:
                Sandbox.connect(id)
            except (SandboxNotFoundError, SandboxGoneError):
                pass

        thread = threading.Thread(target=wake)
        thread.start()
        time.sleep(0.005 * n)
        assert Sandbox.kill_by_id(machine.id)
        thread.join(30)
        assert machine.id not in {info.id for info in Sandbox.list()}
        with pytest.raises(SandboxNotFoundError):
            Sandbox.connect(machine.id)
        assert not estate().folder(machine.id).exists() and not boxes_alive(estate().folder(machine.id))
        assert not Sandbox.kill_by_id(machine.id)


def test_c21(state):
    with Sandbox.create(idle_seconds=1) as machine:
        assert machine.commands.run("sleep 2.5; echo finished", timeout_seconds=60).stdout == "finished\n"
        job = machine.commands.start("sleep 2; echo bg > bg.txt")  # what was started and runs is work, too
        eventually(
            lambda: (
                "".join(text for _, text in machine.commands.attach(job.id).output()) == ""
                and machine.files.exists("/workspace/bg.txt")
            )
        )
        eventually(lambda: machine.status == "paused")
        assert machine.get_info().reason == "idle"
        assert Sandbox.connect(machine.id).commands.run("echo woke").stdout == "woke\n"


def test_c22(sandbox, state):
    for pid in boxes_alive(estate().folder(sandbox.id)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    eventually(lambda: sandbox.status == "stopped")
    for call in (
        lambda: sandbox.commands.run("echo hi", timeout_seconds=5),
        lambda: sandbox.files.read("/workspace/x"),
    ):
        with pytest.raises(SandboxGoneError) as caught:
            call()
        assert not isinstance(caught.value, FileNotFoundError)
    assert Sandbox.connect(sandbox.id).found == "restarted"
    with Sandbox.pool(1) as pool:
        waiting = eventually_waiting()
        killed = boxes_alive(estate().folder(waiting))
        for pid in killed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        eventually(lambda: not any(map(alive, killed)))  # until then its connection looks as it did
        with pool.create("next") as machine:
            assert machine.commands.run("echo here").stdout == "here\n"


def eventually_waiting():
    found = []
    eventually(lambda: found.extend(record.id for record in estate().registry.find() if record.pool) or found)
    return found[0]


def test_c23(state, monkeypatch):
    before = {info.id for info in Sandbox.list()}

    async def main():
        for delay in (0.0, 0.005, 0.01, 0.02, 0.05, 0.2, 0.5):
            task = asyncio.create_task(AsyncSandbox.create(memory_mb=64))
            await asyncio.sleep(delay)
            task.cancel()
            try:
                await (await task).kill()
            except asyncio.CancelledError:
                pass

    asyncio.run(main())
    eventually(lambda: {info.id for info in Sandbox.list()} == before)
    from gloveport.host.machines import base

    monkeypatch.setattr(base, "Box", lambda *_: (_ for _ in ()).throw(RuntimeError("after the start")))
    with pytest.raises(RuntimeError, match="after the start"):
        Sandbox.create(memory_mb=64)
    monkeypatch.undo()
    assert {info.id for info in Sandbox.list()} == before


def test_c24(sandbox):
    count = "for p in /proc/[0-9]*; do cat $p/stat 2>/dev/null; done | sed 's/.*) //' | cut -c1 | sort | uniq -c | tr -s ' \\n' ' '"
    for _ in range(20):
        sandbox.commands.run("for i in $(seq 15); do (sleep 0.05 & ) ; done")
    eventually(
        lambda: " Z" not in (said := sandbox.commands.run(count).stdout) and sum(map(int, said.split()[::2])) < 12
    )


def test_c25(sandbox):
    sandbox.commands.run("touch stamp")
    sandbox.pause()
    time.sleep(2)
    machine = Sandbox.connect(sandbox.id)
    earliest = time.time()
    guest = float(machine.commands.run("date +%s.%N").stdout)
    assert earliest - 0.01 <= guest <= time.time() + 0.01
    old = "find . -name stamp -newermt '1 second ago' | wc -l; sleep 0.1; echo slept; date +%Z"
    assert machine.commands.run(old).stdout == "0\nslept\nUTC\n"


def test_c30(state, monkeypatch):
    """Without namespaces: a user who may make none, and no program that does something else instead."""
    before = len(Sandbox.list())
    if os.geteuid() == 0 and shutil.which("unshare"):
        script = (
            "from gloveport import Sandbox\nfrom gloveport.errors import CapabilityError\n"
            "try: Sandbox.create(); print('made')\nexcept CapabilityError as error: print('refused', error.missing)"
        )
        import sys

        none = 'mount -t tmpfs none /dev/shm; echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
        command = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            none,
            "sh",
            sys.executable,
            "-c",
            script,
        ]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "GLOVEPORT_STATE": str(state.parent / "other"),
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.startswith("refused ('isolation',"), done
    with pytest.raises(CapabilityError, match="isolation"):
        Sandbox.create(require={"isolation": "microvm"})
    assert len(Sandbox.list()) == before
