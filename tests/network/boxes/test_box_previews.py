"""Ports of a box on this machine's loopback, dialled by an agent that the test plays."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
import urllib.error
import urllib.request

import pytest

from gloveport.errors import EngineUnavailableError
from gloveport.host.machines.network_control import SandboxNetwork

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage"


class Agent:
    """Answers `DIAL`, and is the server behind port 5000 at the same time."""

    def __init__(self, folder):
        self.dialled, self.heads = [], []
        self._directory = os.open(folder, os.O_PATH)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"/proc/self/fd/{self._directory}/agent.sock")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(ConnectionError, struct.error):  # a gateway that is killed leaves it
            (length,) = struct.unpack("<I", connection.recv(4, socket.MSG_WAITALL))
            body = connection.recv(length, socket.MSG_WAITALL)
            assert body[:6] == b"\x25" + struct.pack("<BI", 44, 8)
            port = int.from_bytes(body[6:], "little")
            self.dialled.append(port)
            if port != 5000:
                text = b"nobody listens there"
                field = struct.pack("<BI", 61, len(text)) + text
                connection.sendall(struct.pack("<I", 1 + len(field)) + b"\x81" + field)
                return
            connection.sendall(struct.pack("<I", 1) + b"\x80")
            data = connection.recv(65536)
            self.heads.append(data)
            if data == b"raw":
                connection.sendall(b"raw too")
                while connection.recv(100):
                    pass
                return
            connection.sendall(PAGE)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        os.close(self._directory)


@pytest.fixture
def ported(box):
    """A box without a network, its agent, and the host's hand on it."""
    b = box(None, namespace=False)
    agent = Agent(b.folder)
    network = SandboxNetwork(b.world.root, b.id)
    # In the world's namespace 127.0.0.1 is another machine's: the daemon under test is a plain one.
    from gloveport.egress.gateway.launching import DaemonClient, daemon_command

    b.world.ask("end")
    command = daemon_command(b.world.root, idle=20)
    network._client = DaemonClient(b.world.root, command)
    for _ in range(200):
        if b.world.ask("status") is None:
            break
        time.sleep(0.01)
    yield b, agent, network
    agent.close()
    b.world.close()


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


def get(url, headers=()):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay)
    try:
        with opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=10) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def test_a_port_of_a_box_without_a_network(ported):
    b, agent, network = ported
    port = network.preview(5000)
    assert get(port.url)[:2] == (200, b"page")
    assert agent.dialled == [5000]
    assert network.preview(5000) == port
    assert network.previews == (port,)
    with socket.create_connection(("127.0.0.1", port.host_port), 5) as sock:
        sock.sendall(b"raw")
        assert sock.recv(100) == b"raw too"
    other = network.preview(5001)
    status, body, _ = get(other.url)
    assert (status, b"nobody listens there" in body) == (502, True)
    network.close_preview(5000)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port.host_port), 5)
    assert get(other.url)[0] == 502
    network.close_preview(5000)


def test_a_private_port_wants_its_token(ported):
    b, agent, network = ported
    port = network.preview(5000, private=True)
    assert port.token not in repr(port)
    bare = f"http://127.0.0.1:{port.host_port}/x"
    assert get(bare)[0] == 401
    assert get(bare, {"X-Gloveport-Token": "another"})[0] == 401
    assert get(bare + "?gloveport_token=")[0] == 401
    assert get(bare, {"Cookie": "gloveport_token=another"})[0] == 401
    assert agent.dialled == []
    assert get(bare, {"X-Gloveport-Token": port.token})[:2] == (200, b"page")
    status, _, headers = get(f"{bare}?a=1&gloveport_token={port.token}&b=2")
    assert (status, headers["Location"]) == (303, "/x?a=1&b=2")
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert get(bare, {"Cookie": f"other=1; {cookie}"})[:2] == (200, b"page")
    assert (
        get(f"http://127.0.0.1:{port.host_port}//evil.example/?gloveport_token={port.token}")[2]["Location"]
        == "/evil.example/"
    )
    with socket.create_connection(("127.0.0.1", port.host_port), 5) as sock:
        sock.sendall(b"raw stuff\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 400")


def test_a_port_that_is_somebody_elses(ported):
    b, agent, network = ported
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(EngineUnavailableError, match=str(taken.getsockname()[1])):
            network.preview(5000, host_port=taken.getsockname()[1])
        assert network.previews == ()
    assert get(network.preview(5000).url)[0] == 200


def test_it_outlives_its_gateway_and_ends_with_the_box(ported):
    b, agent, network = ported
    port = network.preview(5000)
    b.world.kill()
    with pytest.raises(OSError):
        for _ in range(200):
            socket.create_connection(("127.0.0.1", port.host_port), 5).close()
            time.sleep(0.01)
    network._client.start()
    for _ in range(200):
        try:
            assert get(port.url)[:2] == (200, b"page")
            break
        except urllib.error.URLError:
            time.sleep(0.01)
    else:
        pytest.fail("it does not come back")
    import fcntl

    fcntl.flock(b.lock, fcntl.LOCK_UN)
    for _ in range(1500):
        try:
            socket.create_connection(("127.0.0.1", port.host_port), 5).close()
        except OSError:
            break
        time.sleep(0.01)
    else:
        pytest.fail("it goes on without its box")
