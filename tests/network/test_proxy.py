"""The HTTP proxy for trusted programs."""

from __future__ import annotations

import base64
import os
import socket
import threading
import urllib.parse

import pytest

from gloveport import NetworkRules
from gloveport.engines.jail import syscalls

from .world import OPEN, OTHER


@pytest.fixture
def proxy(world):
    made = []

    def start(*allow, **rules):
        made.append(world.gateway.proxy(NetworkRules(allow=allow, **rules)))
        return made[-1]

    world.reached()
    yield start
    for one in made:
        one.close()


def say(world, proxy, text, *, credential=None):
    """Answer to one request, sent as it is. The proxy listens in the world, so that is where the client has to be."""
    url = urllib.parse.urlsplit(proxy.url)
    given = f"{url.username}:{url.password}" if credential is None else credential
    field = f"Proxy-Authorization: Basic {base64.b64encode(given.encode()).decode()}\r\n" if given else ""
    return in_world(world, url.port, text.replace("\r\n", f"\r\n{field}", 1).encode())


def in_world(world, port, data):
    """Sends and reads in the gateway's network namespace, on a thread, which alone moves there."""
    got = []

    def run():
        fd = os.open(f"/proc/{world.gateway.pid}/ns/net", os.O_RDONLY)
        try:
            syscalls.call("setns", fd, 0x4000_0000)
        finally:
            os.close(fd)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR) if b"CONNECT" not in data else None
            whole = b""
            while more := client.recv(65536):
                whole += more
                if b"CONNECT" in data and whole.endswith(b"\r\n\r\n") and b" 200 " in whole:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    client.shutdown(socket.SHUT_WR)
            got.append(whole)

    def caught():
        try:
            run()
        except OSError as error:
            got.append(type(error).__name__.encode())

    thread = threading.Thread(target=caught)
    thread.start()
    thread.join(15)
    return got[0].decode()


def test_a_request(world, proxy):
    made = proxy("open.test")
    said = say(world, made, "GET http://open.test/a HTTP/1.1\r\nHost: open.test\r\n\r\n")
    assert said.startswith("HTTP/1.1 200 ")
    assert said.endswith(OPEN)
    assert [(d.destination, d.allowed) for d in made.decisions()] == [("GET http://open.test", True)]


def test_a_tunnel(world, proxy):
    made = proxy("open.test:8080")
    said = say(world, made, "CONNECT open.test:8080 HTTP/1.1\r\nHost: open.test:8080\r\n\r\n")
    assert "Connection established" in said
    assert said.endswith(OPEN)
    assert [(d.host, d.port, d.allowed) for d in made.decisions()] == [("open.test", 8080, True)]


@pytest.mark.parametrize("credential", ["", "gloveport:", "gloveport:wrong", "other:right"])
def test_another_credential(world, proxy, credential):
    made = proxy("open.test")
    said = say(world, made, "GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n", credential=credential)
    assert said.startswith("HTTP/1.1 407 ")
    assert world.reached() == []


def test_every_proxy_has_its_own(world, proxy):
    one, other = proxy("open.test"), proxy("open.test")
    given = urllib.parse.urlsplit(other.url)
    said = say(
        world,
        one,
        "GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n",
        credential=f"gloveport:{given.password}",
    )
    assert said.startswith("HTTP/1.1 407 ")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET http://other.test/ HTTP/1.1", "403"),
        ("GET http://open.test:8080/ HTTP/1.1", "403"),
        ("GET http://open.test/v2/ HTTP/1.1", "403"),
        ("POST http://open.test/v1/ HTTP/1.1", "403"),
        ("GET http://intranet.test/v1/ HTTP/1.1", "502"),
        ("GET http://nowhere.test/v1/ HTTP/1.1", "502"),
        ("GET http://open.test/v1/%2e%2e/ HTTP/1.1", "403"),
        ("GET https://open.test/v1/ HTTP/1.1", "403"),
        ("GET http://user@open.test/v1/ HTTP/1.1", "403"),
        ("GET /v1/ HTTP/1.1", "403"),
        ("CONNECT open.test:443 HTTP/1.1", "403"),
        ("CONNECT 127.0.0.1:22 HTTP/1.1", "403"),
        ("CONNECT open.test HTTP/1.1", "400"),
        ("CONNECT 0x7f.1:80 HTTP/1.1", "400"),
        ("GARBAGE", "400"),
    ],
)
def test_what_it_refuses(world, proxy, request_line, status):
    """With rules that have paths and methods, as a plain request shows both."""
    made = proxy("open.test/v1/", "intranet.test/v1/", "nowhere.test/v1/")
    said = say(world, made, f"{request_line}\r\nHost: open.test\r\n\r\n")
    assert said.startswith(f"HTTP/1.1 {status} ")
    assert world.reached() == []
    allowed = say(world, made, "GET http://open.test/v1/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
    assert allowed.endswith(OPEN)


def test_a_private_address_that_is_named(world, proxy):
    made = proxy("intranet.test", private=("10.0.0.0/8",))
    assert say(world, made, "GET http://intranet.test/ HTTP/1.1\r\nHost: x\r\n\r\n").endswith("10.0.0.5")


def test_other_rules(world, proxy):
    made = proxy("open.test")
    made.set_rules(NetworkRules(allow=("other.test",)))
    assert say(world, made, "GET http://open.test/ HTTP/1.1\r\nHost: x\r\n\r\n").startswith("HTTP/1.1 403")
    assert say(world, made, "GET http://other.test/ HTTP/1.1\r\nHost: x\r\n\r\n").endswith(OTHER)
    assert [d.allowed for d in made.decisions()] == [False, True]


def test_closed(world, proxy):
    made = proxy("open.test")
    port = urllib.parse.urlsplit(made.url).port
    made.close()
    assert made.url  # nobody listens there any more
    assert in_world(world, port, b"GET http://open.test/ HTTP/1.1\r\n\r\n") in (
        "ConnectionRefusedError",
        "ConnectionResetError",
    )
    assert world.reached() == []
