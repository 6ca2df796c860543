"""Connections that become pipes, terminals that change their size, and what only a supervisor or a driver may say."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.client import (
    ATTACH,
    DIAL,
    EXEC,
    FREEZE,
    HELLO,
    QUIESCE,
    RESEED,
    RESIZE,
    RESUMED,
    STATS,
    THAW,
    BoxError,
    Connection,
    encode,
)
from tests.box.places import Place, spec, wait_for

ECHO = """
import socket, sys, threading
s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(s.getsockname()[1], flush=True)
def serve(c):
    while data := c.recv(65536): c.sendall(data)
    c.sendall(b"over"); c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""


def server(client: Connection, address: str) -> int:
    client.send(EXEC, argv=["python3", "-c", ECHO, address], follow=1)
    client.answer()
    return int(client.frame()[1][9:])


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_connection_becomes_a_pipe(shared: Path, address: str) -> None:
    with Connection(shared) as owner:
        port = server(owner, address)
        with Connection(shared) as client:
            assert client.ask(DIAL, port=port) == {}
            client.socket.sendall(b"hello")
            assert client.socket.recv(5) == b"hello"
            client.socket.shutdown(socket.SHUT_WR)
            assert client.socket.recv(99) == b"over" and client.socket.recv(1) == b""


def test_much_goes_both_ways_and_early_bytes_are_not_lost(shared: Path) -> None:
    with Connection(shared) as owner:
        port = server(owner, "127.0.0.1")
        data = os.urandom(6 << 20)
        with Connection(shared) as client:

            def feed() -> None:
                client.socket.sendall(encode(DIAL, port=port) + data)
                client.socket.shutdown(socket.SHUT_WR)

            feeder = threading.Thread(target=feed)
            feeder.start()
            assert client.frame()[0] == 0x80
            while part := client.socket.recv(1 << 20):
                client.buffer += part
            feeder.join()
            assert bytes(client.buffer) == data + b"over"


def test_a_pipe_lives_through_a_pause(place: Place) -> None:
    with place.box() as folder, Connection(folder) as owner, Connection(folder, "ctl.sock") as control:
        port = server(owner, "127.0.0.1")
        with Connection(folder) as client:
            client.ask(DIAL, port=port)
            control.ask(FREEZE)
            client.socket.sendall(b"meanwhile")
            control.ask(THAW)
            assert client.socket.recv(99) == b"meanwhile"


def test_nobody_at_the_port(connection: Connection) -> None:
    with pytest.raises(BoxError) as told:
        connection.ask(DIAL, port=1)
    assert told.value.errno == 111 and told.value.code == "dial"
    for port in (0, 65536, -1):
        with pytest.raises(BoxError):
            connection.ask(DIAL, port=port)
    assert connection.run("true")["exit_code"] == 0  # the connection is as it was


def test_a_pipe_ends_with_its_client(shared: Path) -> None:
    with Connection(shared) as owner, Connection(shared) as other:
        port = server(owner, "127.0.0.1")
        open_now = f"grep -c ':{port:04X} 01 ' /proc/net/tcp"
        for _ in range(20):
            with Connection(shared) as client:
                client.ask(DIAL, port=port)
                assert int(other.sh(open_now)["stdout"]) >= 1
        wait_for(lambda: int(other.sh(open_now)["stdout"]) == 0)


def test_a_terminal_changes_its_size(connection: Connection) -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    connection.send(EXEC, shell=script, pty=1, rows=10, cols=20, follow=1)
    connection.answer()
    assert b"ready" in connection.frame()[1]
    connection.send(RESIZE, rows=33, cols=77)
    assert connection.follow()["stdout"].strip() == b"33 77"


def test_what_the_agent_says_about_itself(connection: Connection) -> None:
    said = connection.ask(STATS)
    assert said["pids"] >= 1 and said["memory"] > 0


def test_clients_of_a_box_are_not_its_supervisor(connection: Connection) -> None:
    for kind in (QUIESCE, RESUMED, RESEED):
        with pytest.raises(BoxError) as told:
            connection.ask(kind, data=b"x", frozen_ms=10**9)
        assert told.value.code == "supervisor"


@pytest.fixture
def lonely(program: Path, tmp_path: Path) -> Iterator[Path]:
    """An agent without a supervisor, as other drivers have it. Its commands run where this test runs."""
    (tmp_path / "spec").write_bytes(
        spec(version=1, id="x", lower="/", map_uid=os.geteuid(), uid=os.geteuid(), gid=os.getegid(), cwd="/")
    )
    shutil.copy(program, tmp_path / "box")
    process = subprocess.Popen([tmp_path / "box", "agent", "spec", "agent.sock"], cwd=tmp_path)
    wait_for(lambda: (tmp_path / "agent.sock").exists())
    yield tmp_path
    process.kill()
    process.wait()


def test_an_agent_alone(lonely: Path) -> None:
    """It lets go of the world outside when its driver says so, and comes back when the driver's file is there."""
    with Connection(lonely) as driver, Connection(lonely) as idle, Connection(lonely) as busy:
        assert busy.ask(HELLO)["version"] == 1 and idle.ask(HELLO) and driver.run("echo", "x")["stdout"] == b"x\n"
        busy.send(EXEC, shell="sleep 0.5; echo done", timeout_ms=100_000, follow=1)
        job = busy.answer()[1]["id"]
        assert driver.ask(QUIESCE) == {}
        for client in (driver, idle, busy):
            with pytest.raises(EOFError):
                client.frame()
    assert not (lonely / "agent.sock").exists()
    (lonely / "agent.sock.go").touch()
    wait_for(lambda: (lonely / "agent.sock").exists())
    with Connection(lonely) as driver:
        assert driver.ask(RESUMED, frozen_ms=3_600_000) == {}
        assert driver.ask(RESEED, data=os.urandom(32)) == {}
        with pytest.raises(BoxError):
            driver.ask(RESEED)
        driver.send(ATTACH, id=job)
        assert driver.follow()["stdout"] == b"done\n"
