"""Commands in a box: what they get, what they give back, how they end."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.box.client import (
    ACK,
    ATTACH,
    EXEC,
    FORGET,
    HELLO,
    INPUT,
    LIST,
    OK,
    OUTPUT,
    RESIZE,
    SIGNAL,
    STARTED,
    BoxError,
    Connection,
    encode,
)
from tests.box.places import Place, wait_for

Fresh = Callable[..., Path]


def test_exit_codes_and_streams(connection: Connection) -> None:
    done = connection.sh("printf out; printf err >&2; exit 7")
    assert (done["exit_code"], done["stdout"], done["stderr"]) == (7, b"out", b"err")
    assert connection.run("true")["exit_code"] == 0
    assert connection.sh("kill -9 $$")["signal"] == 9


def test_arguments_are_literal(connection: Connection) -> None:
    text = " literal $() `quoted`; && \xff"
    assert connection.run("printf", "%s", text)["stdout"] == text.encode()


def test_a_missing_program_is_127_and_one_that_may_not_run_126(connection: Connection) -> None:
    assert connection.run("no-such-program")["exit_code"] == 127
    assert b"no-such-program" in connection.run("no-such-program")["stderr"]
    assert connection.run("/no/such/program")["exit_code"] == 127
    assert connection.run("/etc/passwd")["exit_code"] == 126


def test_standard_input_is_at_its_end_unless_asked(connection: Connection) -> None:
    assert connection.sh("read value || printf eof")["stdout"] == b"eof"
    connection.send(EXEC, argv=["cat"], stdin=1, follow=1)
    connection.answer()
    connection.send(INPUT, data=b"one\0two", eof=1)
    assert connection.follow()["stdout"] == b"one\0two"


def test_much_input_comes_out_again(connection: Connection, shared: Path) -> None:
    data = os.urandom(1 << 16) * 80  # 5 MiB: more than the agent holds for a process
    connection.send(EXEC, argv=["cat"], stdin=1, follow=1, keep_bytes=1 << 16)
    identity = connection.answer()[1]["id"]
    with Connection(shared) as other:
        got = bytearray()
        at = 0
        connection.socket.settimeout(0.02)
        while len(got) < len(data):
            if at < len(data):
                other.ask(INPUT, id=identity, data=data[at : at + (1 << 19)], eof=int(at + (1 << 19) >= len(data)))
                at += 1 << 19
            try:
                while True:
                    kind, body = connection.frame()
                    if kind != OUTPUT:
                        break
                    assert struct.unpack_from("<BQ", body) == (1, len(got))
                    got += body[9:]
            except TimeoutError:
                continue
    assert bytes(got) == data


def test_where_and_as_whom_a_command_runs(connection: Connection) -> None:
    done = connection.sh("id -u; id -g; pwd -P; echo $HOME $USER; umask")
    assert done["stdout"].split() == [b"1000", b"1000", b"/workspace", b"/home/user", b"user", b"0022"]
    done = connection.sh("pwd; echo $A$PATH", cwd="/tmp", env=["A=b=c:", "PATH=/x"])
    assert done["stdout"] == b"/tmp\nb=c:/x\n"
    with pytest.raises(BoxError) as caught:
        connection.run("true", cwd="/no/such")
    assert caught.value.code == "cwd"


def test_other_users_of_the_box(connection: Connection, place: Place) -> None:
    if place.uid:
        with pytest.raises(BoxError) as caught:
            connection.run("true", user="root")
        assert caught.value.code == "user"
        return
    assert connection.sh("id -u; echo $HOME; touch /root/x && rm /root/x", user="root")["stdout"] == b"0\n/root\n"
    assert connection.sh("id -u; id -g", user="1001:1000")["stdout"] == b"1001\n1000\n"
    assert connection.sh("id -un", user="other")["stdout"] == b"other\n"
    with pytest.raises(BoxError):
        connection.run("true", user="70000")
    with pytest.raises(BoxError):
        connection.run("true", user="nobody-at-all")


def test_commands_get_nothing_of_ours(connection: Connection) -> None:
    assert connection.sh("ls /proc/self/fd")["stdout"].split() == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]  # 3: the folder that ls reads
    blocked, ignored = (
        line.split()[1] for line in connection.sh("grep -E 'Sig(Blk|Ign)' /proc/self/status")["stdout"].splitlines()
    )
    assert int(blocked, 16) == int(ignored, 16) == 0


def test_a_child_in_the_background_does_not_hold_up_the_end(connection: Connection) -> None:
    start = time.monotonic()
    done = connection.sh("(sleep 30; echo late) & echo $!; printf done")
    assert done["stdout"].endswith(b"done") and time.monotonic() - start < 15
    child = done["stdout"].split()[0].decode()
    assert connection.run("kill", "-0", child)["exit_code"] == 0  # and it lives on
    connection.run("kill", child)


def test_a_child_that_writes_after_the_end_is_not_killed_for_it(connection: Connection) -> None:
    flag = "/tmp/wrote"
    connection.sh(f"(sleep 1; echo a; sleep 0.2; echo b; echo yes > {flag}) &")
    wait_for(lambda: connection.run("test", "-s", flag)["exit_code"] == 0)
    connection.run("rm", flag)


def test_a_detached_process_outlives_its_command_and_other_timeouts(connection: Connection) -> None:
    pid = connection.sh("setsid sleep 60 >/dev/null 2>&1 & echo $!")["stdout"].strip().decode()
    assert connection.sh("sleep 60", timeout_ms=100)["timed_out"] == 1
    assert connection.run("kill", "-0", pid)["exit_code"] == 0
    connection.run("kill", pid)


def test_a_timeout_kills_the_whole_foreground_tree(connection: Connection) -> None:
    done = connection.sh("sleep 61 & (setsid sleep 62; true) & sh -c 'sleep 63; true'; true", timeout_ms=300)
    assert done["timed_out"] == 1 and done["exit_code"] == 137
    assert connection.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 6[123]'")["stdout"] == b""


def test_a_timeout_does_not_hit_what_ends_in_time(connection: Connection) -> None:
    assert "timed_out" not in connection.sh("sleep 0.1; echo x", timeout_ms=20000)


def test_output_is_kept_and_can_be_fetched_again(connection: Connection, shared: Path) -> None:
    connection.send(EXEC, shell="printf one; sleep 0.3; printf two")
    kind, started = connection.answer()
    assert kind == STARTED
    connection.send(ATTACH, id=started["id"])
    assert connection.follow()["stdout"] == b"onetwo"
    with Connection(shared) as other:
        other.send(ATTACH, id=started["id"], out_offset=3)
        assert other.follow()["stdout"] == b"two"
        assert other.ask(FORGET, id=started["id"]) == {}
        with pytest.raises(BoxError):
            other.ask(ATTACH, id=started["id"])


def test_a_client_that_goes_loses_nothing(shared: Path) -> None:
    with Connection(shared) as first:
        first.send(EXEC, shell="sleep 0.2; printf kept", follow=1)
        identity = first.answer()[1]["id"]
    with Connection(shared) as second:
        second.send(ATTACH, id=identity)
        assert second.follow()["stdout"] == b"kept"


def test_the_first_and_the_last_bytes_are_kept(connection: Connection) -> None:
    connection.send(EXEC, shell="seq 1 200000", keep_bytes=4096)
    identity = connection.answer()[1]["id"]
    wait_for(lambda: next(p for p in connection.entries(LIST) if p["id"] == identity)["state"] == b"exited")
    connection.send(ATTACH, id=identity)
    done = connection.follow()
    assert done["stdout"].startswith(b"1\n2\n") and done["stdout"].endswith(b"199999\n200000\n")
    assert done["out_skipped"] == done["gaps"] == done["out_total"] - 4096 > 0


def test_who_follows_gets_everything(connection: Connection) -> None:
    done = connection.sh("seq 1 300000", keep_bytes=4096)
    assert done["stdout"] == b"".join(b"%d\n" % n for n in range(1, 300001)) and done["gaps"] == 0


def test_who_has_not_even_read_the_beginning_loses_nothing_after_it(shared: Path) -> None:
    half, part = 1 << 19, 300_000  # what is kept of the beginning, and of the end
    script = f"head -c {half + part} /dev/zero; while ! test -e /tmp/go; do sleep 0.01; done; head -c {half} /dev/zero"
    with Connection(shared) as slow, Connection(shared) as other:

        def written() -> int:
            return next(p for p in other.entries(LIST) if p["id"] == identity)["out_total"]

        slow.send(EXEC, shell=script, follow=1, keep_bytes=2 * half)
        identity = slow.answer()[1]["id"]
        wait_for(lambda: written() == half + part)
        other.sh("touch /tmp/go")
        wait_for(lambda: written() >= 2 * half)
        done = slow.follow()
        assert [len(done["stdout"]), done["gaps"], done["exit_code"]] == [2 * half + part, 0, 0]


def test_too_much_output_ends_a_command(connection: Connection) -> None:
    done = connection.sh("yes", output_limit=100000)
    assert done["limit"] == b"output" and done["exit_code"] == 137
    assert "limit" not in connection.sh("seq 1 10", output_limit=100000)


def test_signals_reach_the_group(connection: Connection, shared: Path) -> None:
    connection.send(EXEC, shell="trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done", follow=1)
    identity = connection.answer()[1]["id"]
    connection.frame()
    with Connection(shared) as other:
        assert other.ask(SIGNAL, id=identity, signo=int(signal.SIGTERM)) == {}
        with pytest.raises(BoxError):
            other.ask(SIGNAL, id=identity, signo=99)
        with pytest.raises(BoxError):
            other.ask(SIGNAL, id=987654, signo=15)
    assert connection.follow()["exit_code"] == 3


def test_a_terminal(connection: Connection) -> None:
    connection.send(
        EXEC,
        shell="tty; stty size; read a; echo got $a; stty size; ls -l $(tty) | cut -d' ' -f3",
        pty=1,
        rows=11,
        cols=33,
        follow=1,
    )
    connection.answer()
    connection.send(RESIZE, rows=44, cols=55)
    connection.send(INPUT, data=b"hello\n")
    done = connection.follow()
    assert b"/dev/pts/" in done["stdout"] and b"got hello" in done["stdout"] and b"44 55" in done["stdout"], done
    assert done["stdout"].rstrip().endswith(b"user")


def test_a_terminal_hears_its_end(connection: Connection) -> None:
    connection.send(EXEC, argv=["cat"], pty=1, follow=1)
    connection.answer()
    connection.send(INPUT, data=b"x\n", eof=1)
    assert connection.follow()["exit_code"] == 0


def test_limits_of_one_command(connection: Connection) -> None:
    assert connection.sh("ulimit -n; ulimit -c", rlimit=["nofile:77"])["stdout"] == b"77\n0\n"
    with pytest.raises(BoxError):
        connection.run("true", rlimit="nonsense:1")


def test_acknowledged_output_is_let_go(connection: Connection) -> None:
    connection.send(EXEC, shell="seq 1 20000", keep_bytes=1 << 20)
    identity = connection.answer()[1]["id"]
    wait_for(lambda: next(p for p in connection.entries(LIST) if p["id"] == identity)["state"] == b"exited")
    assert connection.ask(ACK, id=identity, out_offset=1 << 40) == {}
    assert connection.ask(HELLO)["pid"] == 1


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<IB", 0, EXEC),
        struct.pack("<IB", (1 << 20) + 65, EXEC),
        struct.pack("<IBBI", 6, EXEC, 1, 1 << 30),
        struct.pack("<IBB", 2, EXEC, 1),
        struct.pack("<IB", 1 + 5 * 20000, EXEC) + struct.pack("<BI", 9, 0) * 20000,
    ],
)
def test_a_malformed_frame_ends_the_connection_and_nothing_else(shared: Path, data: bytes) -> None:
    with Connection(shared) as client:
        client.socket.sendall(data)
        with pytest.raises((EOFError, ConnectionError)):
            client.frame()
    with Connection(shared) as client:
        assert client.ask(HELLO)["version"] == 1


def test_a_request_in_pieces_and_several_at_once(shared: Path) -> None:
    with Connection(shared) as client:
        for byte in encode(HELLO):
            client.socket.sendall(bytes([byte]))
        assert client.answer()[0] == OK
        client.socket.sendall(encode(HELLO) * 3 + encode(EXEC, argv=["true"], follow=1) + encode(HELLO))
        assert [client.answer()[0] for _ in range(3)] == [OK] * 3
        assert client.answer()[0] == STARTED and client.follow()["exit_code"] == 0
        assert client.answer()[0] == OK


def test_its_streams_are_the_users_own(connection):
    done = connection.sh("echo a >/dev/stdout; echo b >/dev/stderr")
    assert (done["stdout"], done["stderr"]) == (b"a\n", b"b\n")
