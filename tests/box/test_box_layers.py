"""What a box wrote becomes a layer that does not change any more, and the box goes on."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.box.client import (
    EXEC,
    FREEZE,
    RELAYER,
    SIGNAL,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    STATUS,
    WATCH,
    BoxError,
    Connection,
)
from tests.box.places import Place, send_signal, state, wait_for


def push(folder: Path, **fields: object) -> dict[str, object]:
    with Connection(folder, "ctl.sock") as control:
        return control.ask(RELAYER, **fields)


def test_the_layer_is_frozen_and_the_parent_goes_on(place: Place) -> None:
    with place.box() as folder, Connection(folder) as client:
        client.sh(
            "echo tool > /usr/local/bin/tool && chmod 666 /usr/local/bin/tool",
            **({} if place.uid else {"user": "root"}),
        )
        client.sh("echo one > /workspace/file; mkdir /workspace/d; echo x > /workspace/d/x")
        client.sh("echo m > /dev/shm/kept; echo r > /tmp/t")
        answer = push(folder)
        assert answer["lower"] == b"upper" and answer["upper"] == b"upper.1"
        assert state(folder)["state"] == "running"
        with Connection(folder) as client:
            done = client.sh(
                "cat /workspace/file /usr/local/bin/tool /dev/shm/kept /tmp/t; echo two > /workspace/file; rm -r /workspace/d"
            )
            assert done["stdout"] == b"one\ntool\nm\nr\n", done
            assert (
                client.sh("echo more > /usr/local/bin/tool; mkdir /workspace/d; ls /workspace/d; cat /workspace/file")[
                    "stdout"
                ]
                == b"two\n"
            )
            assert (
                client.sh(
                    "echo $$ > /dev/null; ls /proc/self/exe /dev/pts /run; mount | wc -l; ls -di / /..; ls /usr/bin/env"
                )["exit_code"]
                == 0
            )
            above = client.sh("ls -di / /..")["stdout"].split()
            assert above[0] == above[2]
            assert client.run("tty", pty=1)["stdout"].startswith(b"/dev/pts/")
        assert (folder / "upper/workspace/file").read_text() == "one\n"
        assert (folder / "upper/usr/local/bin/tool").read_text() == "tool\n"
        assert (folder / "upper/workspace/d/x").exists()
        assert (folder / "upper.1/workspace/file").read_text() == "two\n"
        child = place.directory(lower=[str(folder / "upper"), str(place.layer)])
        with place.running(child), Connection(child) as other:
            assert other.sh("cat /workspace/file /workspace/d/x /usr/local/bin/tool")["stdout"] == b"one\nx\ntool\n"
            assert other.sh("echo child > /workspace/file")["exit_code"] == 0
        with Connection(folder) as client:
            assert client.sh("cat /workspace/file")["stdout"] == b"two\n"


def test_twenty_layers_with_removed_and_replaced_things(place: Place) -> None:
    with place.box() as folder:
        for n in range(20):
            with Connection(folder) as client:
                done = client.sh(
                    f"test ! -e /workspace/gone{n - 1} && test ! -e /workspace/dir/old{n - 1} || exit 3; "
                    f"echo {n} > /workspace/all{n}; echo x > /workspace/gone{n}; rm -rf /workspace/dir; mkdir /workspace/dir; "
                    f"echo {n} > /workspace/dir/old{n}; rm -f /workspace/link; ln -s all{n} /workspace/link"
                )
                assert done["exit_code"] == 0, (n, done)
            push(folder)
            with Connection(folder) as client:
                assert (
                    client.sh(f"cat /workspace/link; ls /workspace/dir; rm /workspace/gone{n}; rm -r /workspace/dir")[
                        "stdout"
                    ]
                    == f"{n}\nold{n}\n".encode()
                )
        with Connection(folder) as client:
            assert client.sh("cat /workspace/all* | sort -n | tail -1; ls /workspace | wc -l")["stdout"] == b"19\n21\n"
        send_signal(state(folder)["supervisor"])  # the next one knows of the layers
        wait_for(lambda: state(folder)["restarts"] == "1")
        assert push(folder)["upper"] == b"upper.21"


def test_layers_may_be_moved_away(place: Place) -> None:
    with place.box() as folder, Connection(folder) as client:
        client.sh("echo one > /workspace/one")
        push(folder)
        away = place.root / f"away{place.uid}"
        (folder / "upper").rename(away)
        try:
            with Connection(folder) as client:
                assert client.sh("cat /workspace/one; echo two > /workspace/two")["stdout"] == b"one\n"
            push(folder, lower=[str(away), str(place.layer)])
            with Connection(folder) as client:
                assert client.sh("cat /workspace/one /workspace/two")["stdout"] == b"one\ntwo\n"
        finally:
            shutil.rmtree(away)


@pytest.mark.parametrize(
    "holds",
    [
        "cd /workspace; sleep 1000",
        "cd /; exec sleep 1000 > /workspace/log",
        "cd /; exec sleep 1000 < /workspace",
        "cd /; exec python3 -c \"import mmap,time; f=open('/workspace/m','w+b'); f.truncate(9); "
        'm=mmap.mmap(f.fileno(),9); f.close(); time.sleep(99)"',
        "cd /; exec python3 -c \"import fcntl,time; f=open('/etc/passwd'); fcntl.flock(f, fcntl.LOCK_EX); time.sleep(99)\"",
        'cd /; exec python3 -c "import ctypes,time; c=ctypes.CDLL(None); '
        "c.inotify_add_watch(c.inotify_init(), b'/workspace', 0x100); time.sleep(99)\"",
        "cd /; exec python3 -c \"import ctypes,os,threading,time; f=open('/workspace/m','w'); "
        "threading.Thread(target=time.sleep,args=[99]).start(); "
        "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)\"",
    ],
)
def test_processes_that_hold_files_are_in_the_way(place: Place, holds: str) -> None:
    with place.box() as folder, Connection(folder) as client:
        job = client.ask(EXEC, shell=holds, cwd="/")["id"]
        time.sleep(0.3)
        with pytest.raises(BoxError) as told:
            push(folder)
        assert told.value.code == "busy_files" and state(folder)["state"] == "running"
        assert not (folder / "upper.1").exists()
        with Connection(folder) as client:
            assert client.run("true")["exit_code"] == 0
            client.ask(SIGNAL, id=job, signo=9, scope=1)
            wait_for(lambda: client.sh("ls -d /proc/[0-9]* | wc -l", cwd="/")["stdout"].strip() <= b"4")
            push(folder)


def test_who_watches_is_in_the_way(place: Place) -> None:
    with place.box() as folder, Connection(folder) as client:
        client.ask(WATCH, path="/workspace")
        with pytest.raises(BoxError) as told:
            push(folder)
        assert told.value.code == "busy_files"
        client.close()
        wait_for(lambda: pushed(folder))


def pushed(folder: Path) -> bool:
    try:
        return push(folder)["upper"] == b"upper.1"
    except BoxError:
        return False


def test_a_push_onto_another_layer_is_refused(place: Place) -> None:
    with place.box() as folder:
        push(folder, upper="upper")
        with pytest.raises(BoxError) as told:
            push(folder, upper="upper")
        assert told.value.code == "stale_layer" and state(folder)["state"] == "running"
        assert push(folder, upper="upper.1")["upper"] == b"upper.2"


def test_processes_that_hold_none_go_on(place: Place) -> None:
    with place.box() as folder, Connection(folder) as client:
        job = client.ask(
            EXEC,
            shell="cd /; exec 9< /etc/passwd; while ! test -e /dev/shm/go; do sleep 0.02; done; echo new > /workspace/late",
            cwd="/",
        )["id"]
        push(folder)
        with Connection(folder) as client:
            client.sh("touch /dev/shm/go")
            client.send(2, id=job)
            assert client.follow()["exit_code"] == 0
        assert (folder / "upper.1/workspace/late").exists() and not (folder / "upper/workspace/late").exists()


def test_a_push_that_fails_changes_nothing(place: Place) -> None:
    with place.box() as folder, Connection(folder) as client:
        client.sh("echo one > /workspace/one")
        with pytest.raises(BoxError) as told:
            push(folder, lower=["/does/not/exist"])
        assert told.value.code == "layers"
        with Connection(folder) as client:
            assert client.sh("cat /workspace/one; echo > /workspace/two")["stdout"] == b"one\n"
        assert push(folder)["upper"] == b"upper.1"
    with place.box(upper="tmpfs:10000000:1000") as folder, pytest.raises(BoxError):
        push(folder)


def test_a_paused_box_stays_paused(place: Place) -> None:
    with place.box(wake=0) as folder:
        with Connection(folder, "ctl.sock") as control:
            control.ask(FREEZE)
            control.ask(RELAYER)
            assert control.ask(STATUS)["state"] == b"paused"


def test_a_snapshot_holds_the_box_until_it_ends(place: Place) -> None:
    with place.box() as folder, Connection(folder, "ctl.sock") as control:
        assert control.ask(SNAPSHOT_BEGIN)["state"] == b"paused"
        with Connection(folder, "ctl.sock") as other:
            with pytest.raises(BoxError):
                other.ask(SNAPSHOT_BEGIN)
        with Connection(folder) as client:
            client.send(EXEC, argv=["true"], follow=1)
            time.sleep(0.1)
            assert state(folder)["state"] == "paused"  # it does not wake a box whose files are copied
            assert control.ask(SNAPSHOT_END)["state"] == b"running"
            client.answer()
            assert client.follow()["exit_code"] == 0
        control.ask(SNAPSHOT_BEGIN)
    # its client went: the box goes on (and was ended by the fixture of this test)
    with place.box() as folder:
        with Connection(folder, "ctl.sock") as control:
            control.ask(SNAPSHOT_BEGIN)
        wait_for(lambda: state(folder)["state"] == "running")
        with Connection(folder, "ctl.sock") as control:
            control.ask(SNAPSHOT_BEGIN)
            before = state(folder)["supervisor"]
            send_signal(before)
            wait_for(lambda: state(folder)["supervisor"] != before)
            wait_for(lambda: state(folder)["state"] == "running")
