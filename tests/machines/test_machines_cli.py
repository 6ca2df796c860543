"""`gloveport sandbox`: output and exit codes."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest

from gloveport import Sandbox
from gloveport.cli import main


def program(*argv, stdin=b""):
    done = subprocess.run(
        [sys.executable, "-m", "gloveport", "sandbox", *argv],
        input=stdin,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def cli(capsys):
    def run(*argv):
        try:
            code = main(["sandbox", *map(str, argv)])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_life(cli):
    code, out, _ = cli("create", "from-cli", "--env", "A=b", "--metadata", "k=v", "--memory-mb", 128, "--timeout", 900)
    id = out.strip()  # noqa: A001
    assert code == 0
    try:
        (row,) = json.loads(cli("list", "--metadata", "k=v", "--json")[1])
        assert (row["id"], row["name"], row["status"], row["timeout_seconds"]) == (id, "from-cli", "active", 900)
        assert row["limits"]["memory_mb"] == 128
        assert id in cli("list")[1]
        assert json.loads(cli("exec", "--json", id, "--", "sh", "-c", "echo $A")[1])["stdout"] == "b\n"
        assert cli("pause", id) == (0, f"{id}\n", "")
        assert cli("list", "--status", "paused")[1].startswith(id)
        assert json.loads(cli("resume", "--json", "from-cli")[1])["found"] == "resumed"
        assert json.loads(cli("info", "--json", id[:12])[1])["metadata"] == {"k": "v"}
        assert "from-cli" in cli("info", id)[1]
    finally:
        assert cli("kill", id) == (0, f"{id}\n", "")
    code, _, err = cli("kill", id)
    assert code == 5
    assert "deleted" in err
    assert cli("pause", id)[0] == 5


def test_exec_ends_as_the_command_did(shared):
    code, out, err = program("exec", shared.id, "--", "sh", "-c", "printf '\\377\\000'; echo err >&2; exit 7")
    assert (code, out, err) == (7, b"\xff\x00", b"err\n")
    assert program("exec", shared.id, "--", "sh", "-c", "kill -9 $$")[0] == 137
    assert program("exec", shared.id, "--", "no-such-program")[0] == 127
    code, _, err = program("exec", "--timeout", "0.3", shared.id, "--", "sleep", "60")
    assert code == 124
    assert b"stopped after 0.3 s" in err
    assert program("exec", "-i", "--cwd", "/tmp", shared.id, "--", "sh", "-c", "pwd; cat", stdin=b"in\n") == (
        0,
        b"/tmp\nin\n",
        b"",
    )
    assert program("exec", shared.id)[0] == 2
    assert program("exec", "no-such-machine", "--", "true")[0] == 5


def test_commands_that_go_on(cli, shared):
    number = cli("exec", "--detach", shared.id, "--", "sh", "-c", "echo begun; exit 4")[1].strip()
    assert cli("logs", shared.id, "--command", number) == (4, "begun\n", "")
    assert any(line.startswith(f"{number}  exited 4") for line in cli("ps", shared.id)[1].splitlines())
    assert cli("logs", shared.id) == (0, "", "")


def test_copies(cli, shared, tmp_path):
    (tmp_path / "a").write_bytes(b"\0bytes\xff")
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("deep")
    assert cli("cp", tmp_path / "a", f"{shared.id}:/workspace/cli/")[0] == 0
    assert shared.files.read("/workspace/cli/a") == b"\0bytes\xff"
    assert cli("cp", tmp_path / "d", f"{shared.id}:/workspace/cli")[0] == 0
    assert shared.files.read_text("/workspace/cli/d/e/f") == "deep"
    (tmp_path / "back").mkdir()
    assert cli("cp", f"{shared.id}:/workspace/cli/a", tmp_path / "back")[0] == 0
    assert (tmp_path / "back" / "a").read_bytes() == b"\0bytes\xff"
    assert cli("cp", f"{shared.id}:/workspace/cli", tmp_path / "tree")[0] == 0
    assert (tmp_path / "tree" / "d" / "e" / "f").read_text() == "deep"
    code, _, err = cli("cp", f"{shared.id}:/nope", tmp_path)
    assert code == 5
    assert "/nope" in err
    assert cli("cp", "a", "b")[0] == 2
    shared.files.remove("/workspace/cli", recursive=True)


def test_forks_snapshots_and_templates(cli, sandbox):
    sandbox.files.write("/workspace/x", "1")
    ids = cli("fork", sandbox.id, "-n", 2)[1].split()
    assert len(ids) == 2
    shot = cli("snapshot", sandbox.id, "cli-shot")[1].strip()
    assert cli("snapshot", sandbox.id, "cli-template", "--template")[1] == "cli-template\n"
    made = [
        cli("create", option, value)[1].strip()
        for option, value in (("--snapshot", shot), ("--template", "cli-template"))
    ]
    try:
        for id in (*ids, *made):  # noqa: A001
            assert Sandbox.connect(id).files.read_text("/workspace/x") == "1"
    finally:
        assert cli("kill", *ids, *made)[0] == 0
    assert Sandbox.delete_snapshot("cli-shot")
    report = json.loads(cli("prune", "--json", "--older-than", 0)[1])
    assert set(report) == {"machines", "layers"}
    assert sandbox.files.read_text("/workspace/x") == "1"
    assert cli("create", "--image", "no-such")[0] == 5


def test_a_shell_that_is_piped_into(shared):
    code, out, _ = program("shell", shared.id, stdin=b"tty; echo $((6*7)); exit 3\n")
    assert code == 3
    assert b"42" in out
    assert b"/dev/pts/" in out


def test_a_shell_at_a_terminal(shared):
    """Keys go in, the screen comes out, and the terminal is as it was."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        os.execv(sys.executable, [sys.executable, "-m", "gloveport", "sandbox", "shell", shared.id])
    try:
        seen = b""

        def until(text):
            nonlocal seen
            end = time.monotonic() + 20
            while text not in seen:
                assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], seen
                seen += os.read(terminal, 65536)

        until(b"$ ")
        os.write(terminal, b"stty size; echo $((40+2))\n")
        until(b"42")
        os.write(terminal, b"sleep 100\n")
        time.sleep(0.3)
        os.write(terminal, b"\x03echo still-$((1+1))\n")  # Ctrl-C ends what runs in there, not the shell
        until(b"still-2")
        os.write(terminal, b"exit 9\n")
        _, status = os.waitpid(pid, 0)
        pid = 0
        assert os.waitstatus_to_exitcode(status) == 9
    finally:
        os.close(terminal)
        if pid:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def test_prune_is_told(capsys, sandbox, tmp_path, monkeypatch):
    from gloveport.machines.estate import estate

    (estate().folder("box-left-behind") / "upper").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["prune"]) == 0
    assert "removed 1 machines" in capsys.readouterr().out
    assert not estate().folder("box-left-behind").exists()
    assert sandbox.commands.run("echo well").stdout == "well\n"
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path / "none"))
    assert main(["prune"]) == 0
    assert not (tmp_path / "none").exists()  # who never had a machine gets no directory for them
