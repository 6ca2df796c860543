"""What stays in a box: its own addresses and names."""

from __future__ import annotations

import errno

import pytest

from ..world import OPEN

OWN = """
import socket, threading
def serve(family, address, port):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind((address, port)); s.listen()
    def one():
        while True:
            c, _ = s.accept(); c.sendall(b"own"); c.close()
    threading.Thread(target=one, daemon=True).start()
    return s.getsockname()[1]
def get(host, port):
    with socket.create_connection((host, port), 5) as c: return c.recv(10).decode()
"""
TRY = """
import socket
try: socket.create_connection(({!r}, {}), 10); print("connected")
except OSError as error: print(error.errno)
"""


@pytest.mark.parametrize("watched", [True, False])
def test_its_own_servers(box, watched):
    b = box(["open.test"], watched=watched)
    code = OWN + (
        "port = serve(socket.AF_INET, '127.0.0.1', 0); print(get('127.0.0.1', port), get('localhost', port))\n"
        "port = serve(socket.AF_INET, '0.0.0.0', 0); print(get('127.0.0.1', port), get('127.3.4.5', port))\n"
        "port = serve(socket.AF_INET6, '::1', 0); print(get('::1', port))\n"
    )
    assert b.python(code) == (0, "own own\nown own\nown\n", "")
    assert b.rows() == []


def test_unix_sockets_are_its_own_affair(box):
    code = (
        "import socket, os\nos.chdir('/tmp'); s = socket.socket(socket.AF_UNIX); s.bind('box-test-sock'); s.listen()\n"
        "try:\n c = socket.socket(socket.AF_UNIX); c.connect('box-test-sock'); print('connected')\nfinally: os.unlink('box-test-sock')\n"
        "c = socket.socket(socket.AF_UNIX)\ntry: c.connect('nobody')\nexcept OSError as e: print(e.errno)"
    )
    assert box(["open.test"]).python(code) == (0, f"connected\n{errno.ENOENT}\n", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0"])
def test_nobody_listens_there(box, host):
    b = box("internet")
    assert b.python(TRY.format(host, 8099))[1] == f"{errno.ECONNREFUSED}\n"
    b.curl("http://open.test/")
    assert b.python(TRY.format(host, 80))[1] == f"{errno.ECONNREFUSED}\n"  # where the gateway listens for others
    assert {address for address, _ in box.world.reached()} == {OPEN}


def test_a_port_of_its_own_server_is_no_way_out(box):
    b = box("internet")
    code = OWN + (
        "serve(socket.AF_INET, '0.0.0.0', 9000)\n"
        "try: get('open.test', 9000); print('connected')\nexcept OSError as e: print(e.errno)\n"
        "print(get('127.0.0.1', 9000))"
    )
    assert b.python(code)[1] == f"{errno.EACCES}\nown\n"
    assert "a server of this sandbox has that port" in b.rows()[-1].reason
    assert b.rows()[-1].verdict == "failed"
    assert box.world.reached() == []


def test_names(box):
    b = box(["open.test"])
    code = (
        "import socket\n"
        "for name in ('open.test', 'refused.test', 'localhost'):\n"
        "  print(sorted({e[4][0] for e in socket.getaddrinfo(name, 80)}))\n"
        "try: print(socket.gethostbyaddr('93.184.216.34'))\nexcept OSError: print('no name')\n"
    )
    code, out, err = b.python(code, timeout=5)
    assert (code, out.splitlines()) == (0, ["['198.18.0.1']", "['198.18.0.2']", "['127.0.0.1', '::1']", "no name"]), err
    assert box.world.reached() == []


QUERY = """
import socket, struct
def ask(name, kind):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(("127.0.0.1", 53))
    q = b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + bytes(1)
    s.send(struct.pack("!HHHHHH", 7, 256, 1, 0, 0, 0) + q + struct.pack("!HH", kind, 1))
    _, flags, _, answers, _, _ = struct.unpack_from("!HHHHHH", s.recv(4096)); return flags & 15, answers
for name, kind in (("open.test", 1), ("open.test", 28), ("_http._tcp.open.test", 33), ("open.test", 65), ("open.test", 16),
                   ("34.216.184.93.in-addr.arpa", 12), ("1.0.ip6.arpa", 12), ("localhost", 1), ("a.localhost", 28)):
    print(*ask(name, kind))
"""


def test_questions_that_package_managers_ask_are_answered_at_once(box):
    said = box(["open.test"]).python(QUERY, timeout=10)[1].split("\n")[:-1]
    assert said == ["0 1", "0 0", "0 0", "0 0", "0 0", "3 0", "3 0", "0 1", "0 1"]


def test_names_keep_their_addresses_when_the_gateway_dies(box):
    b = box(["open.test:*", "other.test:*"])
    look = "import socket; print(socket.gethostbyname({!r}))"
    first, second = (b.python(look.format(name))[1] for name in ("open.test", "other.test"))
    assert (first, second) == ("198.18.0.1\n", "198.18.0.2\n")
    box.world.kill()
    assert b.python(look.format("third.test"))[1] == "198.18.0.3\n"
    assert b.python(look.format("other.test"))[1] == second
    code = (
        "import socket; s = socket.create_connection(('198.18.0.1', 80), 10)\n"
        "s.sendall(b'GET / HTTP/1.1\\r\\nHost: open.test\\r\\n\\r\\n'); print(s.recv(99))"
    )
    assert b"200 OK" in b.python(code)[1].encode()
    assert {address for address, _ in box.world.reached()} == {OPEN}


def test_udp_has_no_way_out(box):
    b = box("internet")
    code = (
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n"
        "s.sendto(b'x', ('93.184.216.34', 443))\ntry: print(s.recv(10))\nexcept OSError: print('nothing')"
    )
    assert b.python(code)[1] == "nothing\n"
    assert box.world.reached() == []
    assert b.curl("http://open.test/")[1] == OPEN
