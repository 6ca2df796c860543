"""Boxes whose driver has no namespace to share: a proxy on a unix socket, by the same rules, with the same answers and log."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import stat
import time

import pytest

from gloveport import NetworkRules
from gloveport.egress.gateway.boxes.plans import SECRETS_FILE, BoxSecret, BoxSecrets, write_file

from ..world import OPEN, OTHER


@pytest.fixture
def proxied(box):
    def make(network, **more):
        b = box(network, namespace=False, proxy=True, **more)
        b.change()

        def connect():
            directory = os.open(b.folder, os.O_PATH)
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(8)
            try:
                for _ in range(500):  # a gateway that starts
                    try:
                        sock.connect(f"/proc/self/fd/{directory}/net/proxy.sock")
                        return sock
                    except OSError:
                        time.sleep(0.01)
                raise AssertionError("nobody listens")
            finally:
                os.close(directory)

        def said(data):
            with connect() as sock:
                sock.sendall(data)
                return whole(sock)

        b.connect, b.said = connect, said
        return b

    make.world = box.world
    return make


def whole(sock):
    """What comes until the end, which the servers of the world wait for."""
    out = b""
    try:
        if not isinstance(sock, ssl.SSLSocket):
            sock.shutdown(socket.SHUT_WR)
        while data := sock.recv(65536):
            out += data
    except ConnectionError:
        pass
    return out.decode()


def get(url, *more):
    host = url.split("/")[2]
    return "\r\n".join([f"GET {url} HTTP/1.1", f"Host: {host}", *more, "", ""]).encode()


def test_its_socket_is_for_the_box_and_its_folder_for_nobody_else(proxied):
    b = proxied(["open.test"])
    assert b.said(get("http://open.test/")).startswith("HTTP/1.1 200")
    assert stat.S_IMODE(os.stat(b.folder).st_mode) == 0o700
    assert os.listdir(os.path.join(b.folder, "net")) == ["proxy.sock"]


def test_plain_http(proxied):
    b = proxied(["open.test", "GET http://other.test:8080/public"])
    assert OPEN in b.said(get("http://open.test/"))
    refused = b.said(get("http://six.test/"))
    assert refused.startswith("HTTP/1.1 403")
    assert "blocked by policy: " in refused
    assert "network=" in refused
    assert "200 OK" in b.said(get("http://other.test:8080/public"))
    assert b.said(get("http://other.test:8080/private")).startswith("HTTP/1.1 403")
    assert {address for address, _ in proxied.world.reached()} == {OPEN, OTHER}
    rows = b.rows(kind="request")
    assert [(row.host, row.status, row.verdict) for row in rows] == [
        ("open.test", 200, "allowed"),
        ("six.test", 403, "blocked"),
        ("other.test", 200, "allowed"),
        ("other.test", 403, "blocked"),
    ]


@pytest.mark.parametrize(
    "target", ["other.test:443", "open.test:9000", "169.254.169.254:80", "127.0.0.1:22", "10.0.0.5:443"]
)
def test_tunnels_by_the_rules(proxied, target):
    b = proxied(["open.test:443", "open.test:8080"])
    with b.connect() as sock:
        sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        out = whole(sock)
    assert out.startswith("HTTP/1.1 403")
    assert "blocked by policy: " in out
    assert b.rows()[-1].verdict == "blocked"
    assert proxied.world.reached() == []
    with b.connect() as sock:
        sock.sendall(b"CONNECT open.test:8080 HTTP/1.1\r\nHost: open.test:8080\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.sendall(b"GET / HTTP/1.1\r\nHost: open.test:8080\r\nConnection: close\r\n\r\n")
        assert OPEN in whole(sock)


@pytest.mark.parametrize(("name", "fine"), [("open.test", True), ("other.test", False)])
def test_tls_in_a_tunnel_names_its_host(proxied, name, fine):
    if not proxied.world.authority:
        pytest.skip("needs cryptography")
    b = proxied(["open.test:443"])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with b.connect() as sock:
        sock.sendall(b"CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        try:
            with context.wrap_socket(sock, server_hostname=name) as tls:
                tls.sendall(b"GET / HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\n\r\n")
                out = tls.recv(1000).decode()
        except OSError:
            out = ""
    assert ("200 OK" in out) == fine
    assert b.rows()[-1].verdict == ("allowed" if fine else "blocked")


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n",
        b"GET https://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n",
        b"GET http://user@open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n",
        b"CONNECT open.test HTTP/1.1\r\n\r\n",
        b"CONNECT open.test:0 HTTP/1.1\r\n\r\n",
        b"CONNECT open.test:99999 HTTP/1.1\r\n\r\n",
        b"CONNECT open.test:80/ HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01 hello\r\n\r\n",
    ],
)
def test_what_is_no_request_to_a_proxy(proxied, said):
    b = proxied("internet")
    assert b.said(said).startswith("HTTP/1.1 400")
    assert proxied.world.reached() == []
    assert b.said(get("http://open.test/")).startswith("HTTP/1.1 200")


def test_the_host_field_is_the_urls(proxied):
    b = proxied(["open.test"])
    assert "200" in b.said(b"GET http://open.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
    assert {address for address, _ in proxied.world.reached()} == {OPEN}


def test_secrets(proxied):
    b = proxied(["http://files.test:8000", "open.test"])
    secret = BoxSecret("KEY", "placeholder-of-it", "real-value-of-it", ("http://files.test:8000",))
    write_file(b.folder, SECRETS_FILE, BoxSecrets((secret,)))
    b.change()
    out = b.said(get("http://files.test:8000/echo-not", "X-Key: placeholder-of-it", "Connection: close"))
    assert "seen: True" in out
    refused = b.said(get("http://open.test/", "X-Key: placeholder-of-it"))
    assert "the placeholder of the secret 'KEY' is not for open.test:80" in refused
    assert b.rows(kind="request")[-1].violation


def test_a_gateway_that_starts_takes_it_up_again(proxied):
    b = proxied(["open.test"])
    assert b.said(get("http://open.test/")).startswith("HTTP/1.1 200")
    proxied.world.kill()
    proxied.world.client.start()
    assert b.said(get("http://open.test/")).startswith("HTTP/1.1 200")
    assert b.said(get("http://other.test/")).startswith("HTTP/1.1 403")


def test_rules_change_and_it_goes(proxied):
    b = proxied(["open.test"])
    b.change(network=["other.test"])
    assert b.said(get("http://open.test/")).startswith("HTTP/1.1 403")
    assert b.said(get("http://other.test/")).startswith("HTTP/1.1 200")
    b.change(proxy=False)
    assert os.listdir(os.path.join(b.folder, "net")) == []


def begun(sock, said):
    sock.sendall(said)
    data = sock.recv(1000)
    assert b" 200 " in data
    return data


def goes_on(sock):
    try:
        sock.sendall(b"2")
        return sock.recv(9) == b"2"
    except ConnectionError:
        return False


def test_tunnels_that_are_no_longer_allowed_end(proxied):
    both = ("open.test:9000", "other.test:9000")
    b = proxied(NetworkRules(allow=both))
    for after in (NetworkRules(allow=both[1:]), NetworkRules(allow=both, deny=(f"cidr:{OPEN}/32",))):
        with b.connect() as one, b.connect() as two:
            for sock, where in zip((one, two), both, strict=True):
                begun(sock, f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
                assert goes_on(sock)
            b.change(network=after)
            assert (goes_on(one), goes_on(two)) == (False, True)
        b.change(network=NetworkRules(allow=both))


@pytest.mark.parametrize(("after", "goes_on"), [("/bytes", True), ("/other", False)])
def test_requests_that_are_no_longer_allowed_end(proxied, after, goes_on):
    b = proxied(["GET http://open.test:8080/bytes"])
    with b.connect() as sock:
        begun(sock, get("http://open.test:8080/bytes/30000000"))
        b.change(network=[f"GET http://open.test:8080{after}", "other.test"])
        count = 0
        with contextlib.suppress(ConnectionError):
            sock.shutdown(socket.SHUT_WR)
            while data := sock.recv(1 << 20):
                count += len(data)
        assert (count > 29_000_000) == goes_on


@pytest.mark.parametrize("after", ["http://files.test:8000/echo", "http://files.test:8000/other"])
def test_requests_with_secrets_that_are_no_longer_allowed_end(proxied, after):
    b = proxied(["http://files.test:8000/echo"])
    secret = BoxSecret("KEY", "placeholder-of-it", "real-value-of-it", ("http://files.test:8000",))
    write_file(b.folder, SECRETS_FILE, BoxSecrets((secret,)))
    b.change()

    def answered(sock, said):
        data = begun(sock, said)
        while not data.endswith(b"/echo"):
            data += sock.recv(1000)

    with b.connect() as sock:
        answered(sock, get("http://files.test:8000/echo"))
        b.change(network=[after, "other.test"])
        if after.endswith("echo"):
            answered(sock, b"GET /echo HTTP/1.1\r\nHost: files.test:8000\r\n\r\n")
        else:
            assert sock.recv(1000) == b""
