"""A box gives its network to a gateway: the test is the gateway."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.client import Connection
from tests.box.places import Place, send_signal, state, wait_for

RECEIVE, SEND, CONTINUE = 0xC050_2100, 0xC018_2101, 1
PLAN = b'{"box": "x"}'


class Gateway:
    """Takes one attachment after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.settimeout(20)
        self.listener.bind(str(path))
        path.chmod(0o777)
        self.listener.listen()
        self.held: list[socket.socket] = []
        self.watcher = -1

    def attach(self) -> None:
        client, _ = self.listener.accept()
        with client:
            client.settimeout(20)
            plan, ancillary, _, _ = client.recvmsg(65536, socket.CMSG_LEN(200 * 4))
        assert plan == PLAN
        self.release()
        channel, *rest = struct.unpack(f"{len(ancillary[0][2]) // 4}i", ancillary[0][2])
        self.channel = socket.socket(fileno=channel)
        self.datagrams, self.queries, *spares = [socket.socket(fileno=fd) for fd in rest[:-1]]
        self.watcher, self.spares = rest[-1], spares
        self.held = [self.channel, self.datagrams, self.queries, *spares]

    def release(self) -> None:
        for one in self.held:
            one.close()
        if self.watcher >= 0:
            os.close(self.watcher)
        self.held, self.watcher = [], -1

    def close(self) -> None:
        self.release()
        self.listener.close()
        self.path.unlink(missing_ok=True)

    def told(self, refuse: int = 0) -> None:
        """Waits for one connect of the box, and lets it go on or fail."""
        assert select.select([self.watcher], [], [], 20)[0]
        request = bytearray(80)
        fcntl.ioctl(self.watcher, RECEIVE, request)
        (identity,) = struct.unpack_from("Q", request)
        fcntl.ioctl(self.watcher, SEND, struct.pack("QqiI", identity, 0, -refuse, 0 if refuse else CONTINUE))


@pytest.fixture
def gateway(place: Place) -> Iterator[Gateway]:
    made = Gateway(place.root / f"gateway{place.uid}.sock")
    yield made
    made.close()


@pytest.fixture
def attached(place: Place, gateway: Gateway) -> Iterator[Path]:
    folder = place.directory(network="gateway", gateway_socket=str(gateway.path))
    (folder / "network.json").write_bytes(PLAN)
    with place.running(folder):
        gateway.attach()
        yield folder


ASK = """
import socket
s = socket.socket(); s.settimeout(20)
try: s.connect(('192.0.2.9',80)); print(s.recv(9))
except OSError as e: print(e.errno)
"""


def test_a_connection_ends_at_the_gateway(attached: Path, gateway: Gateway) -> None:
    assert len(gateway.spares) == 32 and gateway.datagrams.getsockname()[1] == gateway.queries.getsockname()[1] == 53
    gateway.spares[0].bind(("::", 80))
    gateway.spares[0].listen()
    with Connection(attached) as client:
        client.send(1, argv=["python3", "-c", ASK], follow=1)
        gateway.told()
        taken, _ = gateway.spares[0].accept()
        assert taken.getsockname()[0] == "::ffff:192.0.2.9"
        taken.sendall(b"hello")
        taken.close()
        client.answer()
        assert client.follow()["stdout"] == b"b'hello'\n"
        client.send(1, argv=["python3", "-c", ASK], follow=1)
        gateway.told(refuse=13)
        client.answer()
        assert client.follow()["stdout"] == b"13\n"


def test_names_are_asked_of_the_gateway(attached: Path, gateway: Gateway) -> None:
    with Connection(attached) as client:
        tell = "import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.sendto(b'who', ('203.0.113.5',53)); print(s.recv(99))"
        client.send(1, argv=["python3", "-c", tell], follow=1)
        gateway.datagrams.settimeout(20)
        asked, ancillary, _, who = gateway.datagrams.recvmsg(99, 999)
        assert asked == b"who"
        gateway.datagrams.sendmsg([b"me"], ancillary[-1:], 0, who)
        client.answer()
        assert client.follow()["stdout"] == b"b'me'\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the descriptors of a box")
def test_nothing_of_it_stays_in_the_box(attached: Path) -> None:
    pid = state(attached)["pid1"]
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [link for link in links if "seccomp" in link] and len([link for link in links if "socket" in link]) == 1


def test_it_attaches_again(attached: Path, gateway: Gateway) -> None:
    """When the gateway hangs up, and when the supervisor is another."""
    for _ in range(2):
        gateway.channel.close()
        gateway.attach()
    before = state(attached)["supervisor"]
    send_signal(before)
    gateway.attach()
    wait_for(lambda: state(attached)["supervisor"] != before)
    with Connection(attached) as client:
        assert client.run("true")["exit_code"] == 0


def test_a_gateway_is_started_when_there_is_none(place: Place) -> None:
    path, marker = place.root / f"none{place.uid}.sock", place.root / f"started{place.uid}"
    command = (
        "import os,sys; open(sys.argv[1],'a').write('%d %s\\n' % (os.getpid(), sorted(os.listdir('/proc/self/fd'))))"
    )
    keys = {"gateway_argv": [sys.executable, "-S", "-E", "-c", command, str(marker)]} if place.uid == 0 else {}
    keys = keys or {"gateway_argv": ["/bin/sh", "-c", 'echo $$ $(ls /proc/self/fd) >> "$1"', "sh", str(marker)]}
    folder = place.directory(network="gateway", gateway_socket=str(path), **keys)
    (folder / "network.json").write_bytes(PLAN)
    with place.running(folder):
        wait_for(lambda: marker.exists() and marker.read_text().count("\n") >= 2)
        assert "4" not in marker.read_text().splitlines()[0].split()[1:]  # no descriptor of ours
        gateway = Gateway(path)
        gateway.attach()
        gateway.close()


def test_the_gateway_hears_that_a_box_is_gone(place: Place, gateway: Gateway) -> None:
    folder = place.directory(network="gateway", gateway_socket=str(gateway.path))
    (folder / "network.json").write_bytes(PLAN)
    with place.running(folder):
        gateway.attach()
    gateway.channel.settimeout(20)
    assert b'"close"' in gateway.channel.recv(999)


def test_one_of_many_boxes_starts_the_gateway(place: Place) -> None:
    log = place.root / f"starts{place.uid}"
    log.touch(mode=0o666)
    log.chmod(0o666)
    missing = place.root / f"missing{place.uid}"
    missing.mkdir()
    missing.chmod(0o777)
    command = ["/bin/sh", "-c", f"echo begin >> {log}; sleep 1; echo end >> {log}"]
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            folder = place.directory(
                network="gateway", gateway_socket=str(missing / "gateway.sock"), gateway_argv=command
            )
            (folder / "network.json").write_bytes(PLAN)
            stack.enter_context(place.running(folder))
        wait_for(lambda: log.read_text().count("end") >= 2)
    lines = log.read_text().split()
    assert lines[:4] == ["begin", "end", "begin", "end"]  # one after the other, and somebody tries again
