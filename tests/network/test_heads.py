"""Reading whom a connection is for: what is split anywhere, cut anywhere and changed anywhere."""

from __future__ import annotations

import ssl
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.egress.evaluator import Destination
from gloveport.egress.gateway.connections import _check_name
from gloveport.egress.gateway.heads import MAX_HEAD, Misread, http_host, tls_name


def hello(name=None, alpn=()):
    context = ssl.create_default_context()
    context.check_hostname = False
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


HELLO = hello("www.example.com", ["h2", "http/1.1"])


def test_the_name_of_a_real_client():
    assert tls_name(HELLO) == ("www.example.com",)
    assert tls_name(hello("WWW.Example.COM")) == ("www.example.com",)
    assert tls_name(hello()) == (None,)


def test_more_is_awaited_until_it_is_whole():
    assert all(tls_name(HELLO[:n]) is None for n in range(len(HELLO)))


def test_over_several_records():
    """RFC 8446, 5.1: a handshake message may be cut into records."""
    body = HELLO[5:]
    records = b"".join(
        b"\x16\x03\x01" + len(part).to_bytes(2) + part for part in (body[i : i + 50] for i in range(0, len(body), 50))
    )
    assert tls_name(records) == ("www.example.com",)


def extension(kind, content):
    return kind.to_bytes(2) + len(content).to_bytes(2) + content


def made(*extensions):
    fields = b"".join(extensions)
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + len(fields).to_bytes(2) + fields
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


def listed(*names):
    entries = b"".join(b"\0" + len(name).to_bytes(2) + name for name in names)
    return extension(0, len(entries).to_bytes(2) + entries)


def test_the_control_of_what_is_made_here():
    assert tls_name(made(listed(b"a.test"))) == ("a.test",)


@pytest.mark.parametrize(
    "data",
    [
        made(listed(b"a.test"), listed(b"b.test")),
        made(listed(b"a.test", b"b.test")),
        made(listed(b"a.test\0b.test")),
        made(listed("ä.test".encode())),
        made(listed(b"")),
        made(extension(0, b"")),
        made(listed(b"a.test"), extension(0xFE0D, b"hidden")),
        made(listed(b"a.test"))[:60] + b"\xff" * 40,
        b"\x16\x03\x01\x40\x01" + bytes(20),
        b"\x16\x03\x01\0\0",
        b"\x15\x03\x01\0\x02\x01\0",
        b"\x16\x02\x01\0\x05\x01\0\0\0\0",
        b"\x16\x03\x01\0\x04\x01\xff\xff\xff",
        b"SSH-2.0\r\n",
    ],
)
def test_what_does_not_say_one_name(data):
    with pytest.raises(Misread):
        tls_name(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 300), st.integers(0, 255))
def test_nothing_else_is_ever_raised(data, at, byte):
    changed = bytearray(HELLO)
    changed[at % len(changed)] = byte
    for candidate in (data, b"\x16\x03\x01" + data, bytes(changed), bytes(changed)[:at] + data):
        try:
            said = tls_name(candidate)
            assert said is None or said[0] is None or "." in said[0] or said[0].isascii()
        except Misread:
            pass
        try:
            http_host(candidate, 80)
        except Misread:
            pass


def test_a_greeting_without_an_end():
    with pytest.raises(Misread):
        tls_name(b"\x16\x03\x01\x40\x00\x01\x00\x7f\xff" + bytes(MAX_HEAD))
    with pytest.raises(Misread):
        http_host(b"GET /" + b"a" * MAX_HEAD, 80)


def request(*lines):
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("data", "port", "host"),
    [
        (request("GET / HTTP/1.1", "Host: Example.com"), 80, "example.com"),
        (request("GET / HTTP/1.1", "host:example.com:80"), 80, "example.com"),
        (request("GET / HTTP/1.1", "Host: example.com:8080"), 8080, "example.com"),
        (request("GET http://example.com/x HTTP/1.1", "Host: example.com"), 80, "example.com"),
        (request("OPTIONS * HTTP/1.1", "Host: [2606:4700::1111]"), 80, "2606:4700::1111"),
        (request("PUT /a HTTP/1.0", "A: b", "Host: 192.0.2.1", "C: "), 80, "192.0.2.1"),
        (b"GET / HTT", 80, None),
    ],
)
def test_the_host_of_a_request(data, port, host):
    assert http_host(data, port) == host


@pytest.mark.parametrize(
    "data",
    [
        request("GET / HTTP/1.1"),
        request("GET / HTTP/1.1", "Host: a.test", "Host: a.test.other"),
        request("GET / HTTP/1.1", "Host: a.test:81"),
        request("GET / HTTP/1.1", "Host: user@a.test"),
        request("GET / HTTP/1.1", "Host: a.test/b"),
        request("GET / HTTP/1.1", "Host: a.test b.test"),
        request("GET / HTTP/1.1", "Host: "),
        request("GET / HTTP/1.1", "Host : a.test"),
        request("GET / HTTP/1.1", " Host: a.test"),
        request("GET / HTTP/1.1", "Host: a.test", " b.test"),
        request("GET / HTTP/1.1", "Host: 127.1"),
        request("GET / HTTP/2.0", "Host: a.test"),
        request("get / HTTP/1.1", "Host: a.test"),
        request("GET /  HTTP/1.1", "Host: a.test"),
        request("GET http://b.test/ HTTP/1.1", "Host: a.test"),
        request("CONNECT a.test:443 HTTP/1.1", "Host: a.test"),
        request("GET / HTTP/1.1\nHost: b.test", "Host: a.test"),
        request("GET / HTTP/1.1", "X: y\nHost: b.test", "Host: a.test"),
        request("PRI * HTTP/2.0", "", "SM"),
        b"\0\0\0",
    ],
)
def test_requests_that_do_not_say_one_host(data):
    with pytest.raises(Misread):
        http_host(data, 80)


@pytest.mark.parametrize(
    ("said", "host", "right"),
    [
        ("a.test", "a.test", True),
        ("b.test", "a.test", False),
        (None, "a.test", False),
        (None, "192.0.2.1", True),
        (None, "2001:db8::1", True),
        ("a.test", "192.0.2.1", False),
        ("192.0.2.1", "192.0.2.1", True),
    ],
)
def test_the_name_said_is_the_name_meant(said, host, right):
    meant = Destination(host, 443, "https")
    if right:
        _check_name(said, meant)
    else:
        with pytest.raises(Misread):
            _check_name(said, meant)


_SLOW = """
from gloveport.egress.gateway.boxes.requests import parse_request
from gloveport.egress.gateway.heads import Misread, http_host
for read in (lambda data: http_host(data, 80), parse_request):
    read(b"GET / HTTP/1.1\\r\\nHost: h\\r\\na:" + b" " * 30000 + b"y" + b" " * 30000 + b"\\r\\n\\r\\n")
    try:
        read(b"GET / HTTP/1.1\\r\\nHost: h\\r\\na:" + b" " * 30000 + b"\\0\\r\\n\\r\\n")
    except Misread:
        print("refused")
"""


def test_blanks_do_not_hold_up_the_gateway():
    """In a process of its own: nothing could stop the expression that took hours for them."""
    done = subprocess.run([sys.executable, "-c", _SLOW], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["refused", "refused"]
