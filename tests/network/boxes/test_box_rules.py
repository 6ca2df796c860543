"""What a box reaches, by rule; each refusal beside what the same rules allow. Every address of the world answers, if it is reached."""

from __future__ import annotations

import pytest

from gloveport import NetworkRules
from gloveport.host.machines.network import NetworkConfig

from ..world import OPEN, OTHER

PRIVATE = NetworkRules(allow=("intranet.test",), private=("10.0.0.0/8",))


@pytest.mark.parametrize(
    ("network", "url", "reached"),
    [
        ("internet", "http://open.test/", OPEN),
        ("internet", "http://open.test:8080/", OPEN),
        ("internet", f"http://{OTHER}/", OTHER),
        ("internet", "http://10.0.0.5/", None),
        ("internet", "http://169.254.169.254/latest/meta-data/", None),
        ("internet", "http://192.168.1.1:8080/", None),
        ("internet", "http://[fd00::5]/", None),
        ("internet", "http://[::ffff:10.0.0.5]/", None),
        ("internet", "http://intranet.test/", None),
        ("internet", "http://meta.test/", None),
        ("internet", "http://loop.test/", None),
        ("internet", "http://zero.test/", None),
        ("internet", "http://mixed.test/", None),
        ("internet", "http://metadata.google.internal/", None),
        (["open.test"], "http://open.test/", OPEN),
        (["open.test"], "http://other.test/", None),
        (["open.test"], "http://open.test:8080/", None),
        (["open.test"], f"http://{OTHER}/", None),
        (["open.test:8080"], "http://open.test:8080/", OPEN),
        (["open.test:8080"], "http://open.test/", None),
        (["*.open.test"], "http://wild.open.test/", OPEN),
        (["*.open.test"], "http://open.test/", None),
        (["cidr:93.184.216.0/24"], f"http://{OTHER}/", OTHER),
        (["cidr:93.184.216.0/24"], "http://8.8.8.8/", None),
        (["cidr:10.0.0.0/24:*"], "http://10.0.0.5:8080/", "10.0.0.5"),
        (["cidr:10.0.0.0/24:*"], "http://10.0.1.5:8080/", None),
        (PRIVATE, "http://intranet.test/", "10.0.0.5"),
        (PRIVATE, "http://10.0.0.5/", None),
        (NetworkRules(allow=("*:*",), deny=("other.test",)), "http://open.test/", OPEN),
        (NetworkRules(allow=("*:*",), deny=("other.test",)), "http://other.test/", None),
        (NetworkRules(allow=("*:*",), deny=(f"cidr:{OTHER}/32",)), "http://other.test/", None),
        (NetworkConfig(allow_out=["open.test"], deny_out=["0.0.0.0/0"]), "http://open.test:8080/", OPEN),
        (NetworkConfig(allow_out=["open.test"], deny_out=["0.0.0.0/0"]), "http://other.test/", None),
        (NetworkConfig(deny_out=["93.184.216.35/32"]), "http://open.test/", OPEN),
        (NetworkConfig(deny_out=["93.184.216.35/32"]), "http://other.test/", None),
        ({"allow_out": ["10.0.0.5"]}, "http://10.0.0.5:8080/", "10.0.0.5"),
        ({"deny_out": ["0.0.0.0/0"]}, "http://open.test/", None),
        ({"allow_out": [], "deny_out": None}, "http://open.test/", None),
    ],
)
def test_rules(box, network, url, reached):
    b = box(network)
    code, out, err = b.curl("-g", url)
    if reached is not None:
        assert (code, out) == (0, reached), err
        assert {address for address, _ in box.world.reached()} == {reached}
        assert b.rows(kind="connection")[-1].dst_ip == reached
        return
    assert box.world.reached() == []
    assert code or "blocked by policy: " in out
    row = b.rows()[-1]
    assert row.verdict == "blocked"
    assert row.reason.startswith("blocked by policy: ")


HTTP = ["GET http://open.test/public", "POST http://open.test/form", "https://open.test"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["http://open.test/public/x"], 200),
        (["http://open.test/public"], 200),
        (["http://open.test/publicity"], 403),
        (["http://open.test/private"], 403),
        (["http://open.test/"], 403),
        (["--path-as-is", "http://open.test/public/../private"], 403),
        (["http://open.test/public/%2e%2e/private"], 403),
        (["http://open.test//public"], 403),
        (["-X", "DELETE", "http://open.test/public"], 403),
        (["-d", "x=1", "http://open.test/form"], 200),
        (["-d", "x=1", "http://open.test/public"], 403),
        (["-I", "http://open.test/public"], 403),
    ],
)
def test_methods_and_paths_of_plain_http(box, arguments, status):
    b = box(HTTP)
    code, out, err = b.curl("-o", "/dev/stderr", "-w", "%{http_code}", *arguments)
    assert (code, out) == (0, str(status)), err
    assert len(box.world.reached()) == (status == 200)
    (row,) = b.rows(kind="request")
    assert (row.status, row.verdict) == (status, "allowed" if status == 200 else "blocked")
    assert "?" not in row.path
    if status == 403:
        assert "blocked by policy: " in err or "-I" in arguments


def test_methods_that_no_rule_names_are_all_allowed(box):
    b = box(["http://files.test:8000"])
    code, out, _ = b.curl("-d", "some=thing", "http://files.test:8000/form?secret=1")
    assert (code, out) == (0, "some=thing")
    (row,) = b.rows(kind="request")
    assert (row.method, row.path, row.status, row.match_rule) == ("POST", "/form", 200, "http://files.test:8000")
    assert row.bytes_out > 10 < row.bytes_in


RAW = """
import socket, sys
s = socket.create_connection(("open.test", 80), 10)
s.sendall({!r})
s.settimeout(10)
out = b""
try:
    while data := s.recv(65536): out += data
except OSError: pass
print(out.decode("latin-1"))
"""
GET = b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: open.test\r\nHost: other.test\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: open.test\r\n folded: other.test\r\n\r\n",
        b"GET http://other.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: open.test:8080\r\n\r\n",
        b"CONNECT other.test:80 HTTP/1.1\r\nHost: open.test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"POST / HTTP/1.1\r\nHost: open.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: open.test\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: open.test\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: open.test\n\n" + b"x" * 40000,
        b"GET / HTTP/1.1\r\nHost: open.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nGET /more HTTP/1.1\r\n\r\n",
    ],
)
def test_requests_with_two_readings_reach_nobody(box, said):
    b = box(["http://open.test"])
    code, out, err = b.python(RAW.format(said), timeout=30)
    assert code == 0, err
    assert box.world.reached() == []
    assert out.strip() == "" or out.startswith(("HTTP/1.1 403", "HTTP/1.1 400"))
    assert b.rows()[-1].verdict == "blocked"
    assert "HTTP/1.1 200" in b.python(RAW.format(GET).replace("settimeout(10)", "settimeout(0.5)"))[1]


@pytest.mark.parametrize("target", ["/to?http://10.0.0.5/a", "http://open.test/to?http://10.0.0.5/a"])
def test_an_address_in_an_address_arrives(box, target):
    """As in `/login?next=http://…`: only the beginning of a target says where it goes."""
    code = (
        "import socket; s = socket.create_connection(('open.test', 80), 9)\n"
        f"s.sendall(b'GET {target} HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n'); print(s.recv(999).decode())"
    )
    assert "\nLocation: http://10.0.0.5/a\n" in box("internet").python(code)[1].replace("\r", "")


def test_a_second_request_has_no_reader(box):
    """Rules are for requests: what comes behind the first would be one that nobody looked at."""
    b = box(["GET http://files.test:8000/public"])
    (box.world.served / "public").write_text("public thing")
    (box.world.served / "private").write_text("private thing")
    second = (
        b"GET /public HTTP/1.1\r\nHost: files.test:8000\r\n\r\nGET /private HTTP/1.1\r\nHost: files.test:8000\r\n\r\n"
    )
    _, out, _ = b.python(RAW.replace("open.test", "files.test").replace("80)", "8000)").format(second))
    assert "public thing" in out
    assert "private thing" not in out
    assert [row.path for row in b.rows(kind="request")] == ["/public"]


def test_an_upgrade_that_is_not_granted_is_the_end(box):
    b = box(["GET http://files.test:8000/public"])
    (box.world.served / "public").write_text("public thing")
    (box.world.served / "private").write_text("private thing")
    code = """
import socket, time
s = socket.create_connection(("files.test", 8000), 10)
s.sendall(b"GET /public HTTP/1.1\\r\\nHost: files.test:8000\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n")
out = s.recv(65536)
while b"public thing" not in out: out += s.recv(65536)
s.settimeout(2)
try:
    s.sendall(b"GET /private HTTP/1.1\\r\\nHost: files.test:8000\\r\\n\\r\\n")
    while data := s.recv(65536): out += data
except OSError: pass
print(out.decode())
"""
    _, out, _ = b.python(code)
    assert "public thing" in out
    assert "private thing" not in out


def test_an_upgrade_that_is_granted_goes_on(box):
    b = box(["http://open.test"])
    upgrade = b"GET / HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    code = RAW.replace("out = b", 'import time\ntime.sleep(0.5); s.sendall(b"frame")\nout = b').format(upgrade)
    assert "hello" in b.python(code)[1]
    assert b.rows(kind="request")[-1].status == 101


TLS = """
import socket, ssl, sys
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
s = socket.create_connection(({!r}, 443), 10)
try:
    t = context.wrap_socket(s, server_hostname={!r})
    t.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    print(t.recv(100).decode())
except OSError as error:
    print(error)
"""


def test_tls_by_name(box):
    if not box.world.authority:
        pytest.skip("needs cryptography")
    b = box(["open.test:443"])
    assert "200 OK" in b.python(TLS.format("open.test", "open.test"))[1]
    assert {address for address, _ in box.world.reached()} == {OPEN}
    code, out, _ = b.python(TLS.format("open.test", "other.test"))
    assert (code, "ACCESS_DENIED" in out.upper()) == (0, True)
    assert "names another host" in b.rows()[-1].reason
    code, _, err = b.python(TLS.format("other.test", "other.test"))
    assert code
    assert "Permission denied" in err
    assert box.world.reached() == []
    assert b.rows()[-1].host == "other.test"


def test_without_watching_refusals_still_end_at_once(box):
    b = box(["open.test", "open.test:9000"], watched=False)
    assert b.curl("http://open.test/")[:2] == (0, OPEN)
    assert "blocked by policy: " in b.curl("http://other.test/")[1]
    code, out, err = b.curl("https://other.test/", timeout=30)
    assert code == 35, (code, err)
    code, _, err = b.curl("http://other.test:8080/")
    assert code == 7
    assert box.world.reached() == [(OPEN, 80)]


def test_an_address_that_an_allowed_name_has(box):
    code = TLS_FREE.format(OPEN)
    b = box(["open.test"])
    assert b.python(code)[0] != 0 or "blocked by policy" in b.python(code)[1]
    assert box.world.reached() == []
    b.curl("http://open.test/")
    assert "200 OK" in b.python(code)[1]
    assert {address for address, _ in box.world.reached()} == {OPEN}
    assert "blocked by policy" in b.python(TLS_FREE.format(OTHER))[1]


TLS_FREE = """
import socket
s = socket.create_connection(({!r}, 80), 10)
s.sendall(b"GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n")
print(s.recv(1000).decode())
"""
