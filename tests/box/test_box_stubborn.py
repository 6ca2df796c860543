"""Commands and clients that make it hard: to end them, to stop them, to count them, to be told the truth."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.box.client import (
    BOX_STATS,
    DATA,
    DIAL,
    END,
    EVENTS,
    EXEC,
    EXIT,
    FREEZE,
    HELLO,
    INPUT,
    KILL,
    LIST,
    OUTPUT,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    STATUS,
    THAW,
    WATCH,
    WRITE,
    BoxError,
    Connection,
    encode,
)
from tests.box.places import Place, send_signal, state, wait_for
from tests.box.test_box_faults import control, inside, say, start, stat_of, used

LEAVES = """
import ctypes, mmap, os, platform, threading, time
def work():
    {work}
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({{"x86_64": 60, "aarch64": 93}}[platform.machine()], 0)  # exit(2): of this thread
"""


def leaves(work: str) -> list[str]:
    """A program whose first thread ends while another does the work."""
    return ["python3", "-c", LEAVES.format(work=work)]


# ── a first thread that has ended ────────────────────────────────────────────────────────────────────────────────────


def test_a_timeout_ends_a_process_without_its_first_thread(box: Callable[..., Path]) -> None:
    with Connection(box()) as client:
        done = client.run(*leaves("time.sleep(60)"), timeout_ms=300)
        assert done["timed_out"] == 1 and done["exit_code"] == 137


def test_a_pause_stops_a_process_without_its_first_thread(box: Callable[..., Path]) -> None:
    folder = box(wake=0)
    start(folder, *leaves("\n    while True: pass"))
    wait_for(lambda: [stat_of(pid)[0] for pid in inside(folder)] == ["Z"])
    say(folder, FREEZE)
    before = used(folder)
    time.sleep(0.15)
    assert used(folder) == before
    say(folder, THAW)
    wait_for(lambda: used(folder) != before)


def test_the_memory_of_a_process_without_its_first_thread_counts(box: Callable[..., Path]) -> None:
    fill = "m = mmap.mmap(-1, {0} << 20)\n    for i in range(0, {0} << 20, 4096): m[i] = 1\n"
    fill += "    print('all', flush=True); time.sleep({1}); os._exit(0)"
    with Connection(box(memory_max=128 << 20)) as client:
        done = client.run(*leaves(fill.format(300, 60)), timeout_ms=20000)
        assert done["exit_code"] == 137 and done["limit"] == b"memory" and "timed_out" not in done
        assert client.run(*leaves(fill.format(30, 0)))["stdout"] == b"all\n"


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_process_stops_too(box: Callable[..., Path]) -> None:
    """Its time stands still, and what a client had begun to ask is not done."""
    folder = box(wake=0)
    with Connection(folder) as client, Connection(folder) as half:
        request = encode(EXEC, shell="touch /tmp/asked")
        half.socket.sendall(request[:10])
        time.sleep(0.1)  # until it is read: else this client has asked nothing yet
        client.send(EXEC, shell="sleep 0.2; echo done", timeout_ms=500, follow=1)
        client.answer()
        say(folder, FREEZE)
        assert stat_of(int(state(folder)["pid1"]))[0] == "T"
        half.socket.sendall(request[10:])
        time.sleep(0.8)
        assert not (folder / "upper/tmp/asked").exists()
        say(folder, THAW)
        done = client.follow()
        assert done["stdout"] == b"done\n" and "timed_out" not in done
        wait_for((folder / "upper/tmp/asked").exists)  # the control


def test_who_lets_others_go_on_is_stopped_all_the_same(box: Callable[..., Path]) -> None:
    folder = box(wake=0)
    start(folder, "sh", "-c", "(while :; do kill -CONT $$; done) & while :; do :; done")
    wait_for(lambda: len(inside(folder)) >= 2)
    assert say(folder, FREEZE)["state"] == b"paused"
    before = used(folder)
    time.sleep(0.1)
    assert used(folder) == before


def test_who_comes_while_a_snapshot_begins_waits(place: Place) -> None:
    """Both are there at once: the request that begins it, and a client."""
    with place.box() as folder, control(folder) as asker:
        asker.ask(STATUS)
        supervisor = state(folder)["supervisor"]
        for _ in range(5):
            send_signal(supervisor, signal.SIGSTOP)
            try:
                asker.send(SNAPSHOT_BEGIN)
                client = Connection(folder)
                client.send(EXEC, argv=["true"], follow=1)
            finally:
                send_signal(supervisor, signal.SIGCONT)
            assert asker.answer()[1]["state"] == b"paused"
            time.sleep(0.1)
            assert state(folder)["state"] == "paused"
            assert asker.ask(SNAPSHOT_END)["state"] == b"running"
            with client:
                client.answer()
                assert client.follow()["exit_code"] == 0


def test_nothing_brings_a_dying_box_back(place: Place) -> None:
    with place.box() as folder, control(folder) as asker:
        asker.socket.sendall(encode(KILL) + encode(FREEZE))
        wait_for(lambda: state(folder)["state"] == "gone")
        assert state(folder)["reason"] == "killed"


def test_who_counts_the_disk_keeps_nothing_of_its_box(place: Place) -> None:
    with place.box(disk_max=1 << 30) as folder, control(folder) as events, Connection(folder) as client:
        events.send(EVENTS)
        events.answer()
        client.sh("mkdir many; cd many; seq 1 20000 | xargs touch")
        start(folder, "sleep", "1000")
        supervisor = state(folder)["supervisor"]
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
        counter = 0

        def counts() -> bool:
            nonlocal counter
            counter = int((children.read_text().split() or ["0"])[0])
            if counter:
                send_signal(counter, signal.SIGSTOP)
            return counter > 0

        wait_for(counts)
        say(folder, KILL)
        wait_for(lambda: state(folder)["state"] == "gone")
        with pytest.raises(EOFError):  # with the supervisor, and not with its counter
            while True:
                events.frame()


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_child_that_has_no_program_yet_is_not_counted_beside_its_parent(box: Callable[..., Path]) -> None:
    """`subprocess` makes such children (vfork): they have the memory of their parent."""
    folder = box(memory_max=128 << 20)
    code = (
        "import ctypes, mmap, os, time\nm = mmap.mmap(-1, 90 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "for i in range(0, 90 << 20, 4096): m[i] = 1\n"
        "libc = ctypes.CDLL(None)\n"
        "stack = ctypes.create_string_buffer(1 << 20)\ntop = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 20))\n"
        "sleep = ctypes.cast(libc.sleep, ctypes.c_void_p)\n"
        "libc.clone(sleep, top, 0x100 | 0x4000 | 17, ctypes.c_void_p(1))\n"  # CLONE_VM | CLONE_VFORK | SIGCHLD
        "print(os.wait()[1] & 127)"
    )
    with Connection(folder) as client:
        done = client.run("python3", "-c", code)
        assert done["stdout"] == b"0\n" and "limit" not in done, done


def test_who_has_the_memory_goes(box: Callable[..., Path]) -> None:
    folder = box(memory_max=128 << 20)
    grows = "import os,time; f=os.memfd_create('x'); [os.write(f,bytes(1<<20)) for _ in range(110)]; time.sleep(60)"
    stays = "import time; b=bytearray(30<<20); b[::4096]=b'x'*7680; print('has it', flush=True); time.sleep(60)"
    with Connection(folder) as client, Connection(folder) as other:
        other.send(EXEC, argv=["python3", "-c", stays], follow=1)
        small = other.answer()[1]["id"]
        while other.frame()[0] != OUTPUT:  # it has all that it will have: it is the smaller one whenever somebody looks
            pass
        assert int(str(say(folder, BOX_STATS)["memory"])) > 30 << 20
        done = client.run("python3", "-c", grows, timeout_ms=20000)
        assert done.get("limit") == b"memory" and "timed_out" not in done, done
        assert next(p for p in client.entries(LIST) if p["id"] == small)["state"] == b"running"


# ── ends and output ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_is_over_though_another_one_writes_on(box: Callable[..., Path]) -> None:
    with Connection(box()) as client:
        client.send(EXEC, shell="setsid yes & sleep 0.1", follow=1)
        client.answer()
        until, kind = time.monotonic() + 20, 0
        while kind != EXIT:
            assert time.monotonic() < until
            kind = client.frame()[0]
            time.sleep(0.003)


FILLS = """
import os, time
os.set_blocking(1, False)
count, last = 0, time.monotonic()
while time.monotonic() < last + 0.3:
    try: count += os.write(1, bytes(4096)); last = time.monotonic()
    except BlockingIOError: time.sleep(0.01)
open("/tmp/count", "w").write(str(count))
"""


def test_a_slow_reader_makes_nothing_late_and_loses_nothing(box: Callable[..., Path]) -> None:
    """The command has ended in time, when not even its pipe was empty."""
    folder = box()
    with Connection(folder) as client, Connection(folder) as other:
        client.send(EXEC, argv=["python3", "-c", FILLS], follow=1, keep_bytes=1024, timeout_ms=1500)
        identity = client.answer()[1]["id"]
        wait_for(lambda: "exit_code" in next(p for p in other.entries(LIST) if p["id"] == identity))
        time.sleep(2)
        done = client.follow()
        assert len(done["stdout"]) == int(other.read("/tmp/count")) > 64 << 10
        assert done["exit_code"] == 0 and "timed_out" not in done


def test_input_that_waits_learns_that_nobody_takes_it(box: Callable[..., Path]) -> None:
    folder = box()
    with Connection(folder) as client, Connection(folder) as other:
        job = client.ask(EXEC, shell="exec 3<&0; sleep 60 <&3 >/dev/null 2>&1 & sleep 1", stdin=1)["id"]
        for _ in range(2):
            other.ask(INPUT, id=job, data=bytes(1 << 20))
        with pytest.raises(BoxError) as told:
            other.ask(INPUT, id=job, data=bytes(1 << 20))
        assert told.value.code == "input"


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_watches_keeps_no_ends_of_others(box: Callable[..., Path]) -> None:
    folder = box()
    with Connection(folder) as client, Connection(folder) as idle, Connection(folder) as watcher:
        idle.run("true")
        client.send(EXEC, argv=["cat"], stdin=1, follow=1)
        client.answer()
        watcher.ask(WATCH, path="/workspace")
        client.send(INPUT, data=b"all", eof=1)
        assert client.follow()["stdout"] == b"all"
        say(folder, FREEZE)
        with pytest.raises(EOFError):
            idle.frame()


def test_connections_to_a_port_end_with_their_clients(box: Callable[..., Path]) -> None:
    folder = box(nofile=4096)
    code = "import socket,time; s=socket.create_server(('127.0.0.1',0),backlog=2000); print(s.getsockname()[1],flush=True); time.sleep(99)"
    with Connection(folder) as owner:
        owner.send(EXEC, argv=["python3", "-c", code], follow=1)
        owner.answer()
        port = int(owner.frame()[1][9:])
        for _ in range(1100):  # more than an agent has at a time
            with Connection(folder) as client:
                client.ask(DIAL, port=port)
        with Connection(folder) as client:
            assert client.ask(HELLO)["version"] == 1


def test_what_a_server_said_before_it_closed_comes(box: Callable[..., Path]) -> None:
    folder = box()
    code = (
        "import socket; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True)\n"
        "c=s.accept()[0]; c.recv(1); c.sendall(b'413'); c.close()"
    )
    for _ in range(5):
        with Connection(folder) as owner, Connection(folder) as client:
            owner.send(EXEC, argv=["python3", "-c", code], follow=1)
            owner.answer()
            client.ask(DIAL, port=int(owner.frame()[1][9:]))
            sending = threading.Thread(target=_send, args=(client.socket, bytes(8 << 20)))
            sending.start()
            try:
                assert client.socket.recv(3) == b"413"
            finally:
                client.socket.shutdown(socket.SHUT_RDWR)
                sending.join()


def _send(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)


def test_what_comes_behind_a_stream_is_a_request(box: Callable[..., Path]) -> None:
    with Connection(box()) as client:
        data = b"\x05\0\0\0" + bytes([DATA]) + b"text" + b"\x01\0\0\0" + bytes([END])
        client.socket.sendall(encode(WRITE, path="/workspace/f") + data + encode(HELLO))
        assert client.answer()[1]["size"] == 4
        assert client.answer()[1]["version"] == 1


STOPS = """
import os, signal, time
print("begun", flush=True)
end = time.monotonic() + {0}
while time.monotonic() < end:
    try: os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError: pass
"""


def test_who_stops_everything_does_not_stop_the_agent(box: Callable[..., Path]) -> None:
    """A command is of its user for a moment before it is the command, and the agent waits for it."""
    folder = box()
    with Connection(folder) as client, Connection(folder) as other:
        client.send(EXEC, argv=["python3", "-c", STOPS.format(6)], follow=1)
        client.answer()
        while client.frame()[0] != OUTPUT:
            pass
        began = time.monotonic()
        for _ in range(3):
            other.send(EXEC, argv=["true"], timeout_ms=500)  # those that are the command already are ended by that
            other.answer()
        assert time.monotonic() - began < 30
        client.follow()
        assert other.run("echo", "over", timeout_ms=5000)["stdout"] == b"over\n"
