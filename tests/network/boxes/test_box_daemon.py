"""The daemon: one for each user, which nobody has to start first, and whose death costs nothing but connections."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gloveport import NetworkRules
from gloveport.egress.evaluator import Destination
from gloveport.egress.gateway.boxes import connections
from gloveport.egress.gateway.boxes.commands import Command
from gloveport.egress.gateway.boxes.connections import BoxConnections
from gloveport.egress.gateway.boxes.journal import Journal
from gloveport.egress.gateway.boxes.plans import SECRETS_FILE
from gloveport.egress.gateway.boxes.policy import BoxPolicy
from gloveport.egress.gateway.launching import DaemonClient, daemon_command
from gloveport.egress.gateway.limits import GatewayLimits
from gloveport.egress.lookup import Lookups
from gloveport.errors import EngineUnavailableError

from ..world import OPEN


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    client = DaemonClient(str(folder), daemon_command(str(folder), idle=30))
    yield client, folder
    client.ask(Command("end"))


def gone(pid):
    for _ in range(1000):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.01)
    return False


def test_of_many_that_start_one_stays(state):
    client, _ = state
    threads = [threading.Thread(target=client.start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pids = {client.ask(Command("status")).pid for _ in range(5)}
    assert len(pids) == 1


def test_it_is_nobodys_child_and_has_nothing_of_whoever_started_it(state):
    client, folder = state
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        code = "import subprocess, sys, os; os.environ['SOME_KEY'] = 'hush'; subprocess.run(sys.argv[1:], close_fds=False, check=True)"
        subprocess.run([sys.executable, "-c", code, *daemon_command(str(folder), idle=30)], check=True, close_fds=False)
    finally:
        os.close(secret)
    pid = client.ask(Command("status")).pid
    status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(status[3]) == pid  # a session of its own
    held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert "/etc/passwd" not in held
    assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    modules = Path(f"/proc/{pid}/maps").read_text()
    assert not any(name in modules for name in ("libssl", "cryptography", "pydantic", "wasmtime"))


def test_it_ends_when_no_box_has_needed_it_for_a_while(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    client = DaemonClient(str(folder), daemon_command(str(folder), idle=0.3))
    client.start()
    pid = client.ask(Command("status")).pid
    assert gone(pid)
    assert client.ask(Command("status")) is None
    assert not (folder / "gateway.sock").exists()
    assert client.ask(Command("status"), start=True).pid != pid  # the control: it is there when it is wanted
    client.ask(Command("end"))


@pytest.mark.parametrize("mode", [0o755, 0o701])
def test_a_directory_that_others_may_read_is_refused(tmp_path, mode):
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(EngineUnavailableError, match="0700"):
        DaemonClient(str(folder), daemon_command(str(folder), idle=1)).start()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root")
def test_other_users_are_not_heard(state):
    client, folder = state
    client.start()
    for path in (folder, folder.parent, folder.parent.parent, folder.parent.parent.parent):
        os.chmod(path, 0o755)  # the daemon has seen it as it was: what is tested is the other lock
    os.chmod(folder / "gateway.sock", 0o666)
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(5); s.connect(sys.argv[1])\n"
        "try: s.send(b'{\"do\":\"status\"}'); print(len(s.recv(100)) > 0)\nexcept OSError: print('not heard')"
    )
    ask = [sys.executable, "-I", "-c", code, str(folder / "gateway.sock")]
    other = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "/usr/bin/python3", *ask[1:]], capture_output=True, text=True
    )
    if other.returncode:
        pytest.skip(other.stderr)
    assert other.stdout.strip() in ("not heard", "False")
    assert subprocess.run(ask, capture_output=True, text=True).stdout.strip() == "True"


@pytest.mark.parametrize(
    "packet", [b"x", b"[]", b'{"do":"fly"}', b'{"do":"load","box":"../x"}', b'{"do":"why","box":"A"}']
)
def test_nonsense_is_answered(state, packet):
    client, _ = state
    client.start()
    with client.connect() as sock:
        sock.send(packet)
        assert json.loads(sock.recv(1 << 16))["error"]
        sock.send(b'{"do":"status"}')
        assert "error" not in json.loads(sock.recv(1 << 16))


def test_what_is_no_network_is_refused_and_let_go(state, tmp_path):
    client, folder = state
    client.start()
    pid = client.ask(Command("status")).pid
    time.sleep(0.2)  # that connection ends
    before = len(os.listdir(f"/proc/{pid}/fd"))
    one, two = socket.socketpair()
    file = os.open("/etc/passwd", os.O_RDONLY)
    tcp = socket.socket()
    for given in ([], [file], [one.fileno()], [tcp.fileno(), one.fileno()], [tcp.fileno()] * 50):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fds = [theirs.fileno(), *given]
        with client.connect() as sock, ours:
            sock.sendmsg([b'{"box":"b1"}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))])
            theirs.close()
            ours.settimeout(10)
            assert bool(json.loads(ours.recv(1 << 16)).get("error")) == bool(given)
    for held in (one, two, tcp):
        held.close()
    os.close(file)
    for _ in range(200):
        if len(os.listdir(f"/proc/{pid}/fd")) == before:
            break
        time.sleep(0.02)
    assert len(os.listdir(f"/proc/{pid}/fd")) == before


# ── with boxes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_next_request_after_its_death_works(box):
    b = box(["open.test:*"])
    assert b.curl("http://open.test/")[1] == OPEN
    pid = box.world.kill()
    assert b.curl("http://open.test:8080/")[:2] == (0, OPEN)  # a port that the last one had not opened
    assert b.curl("http://open.test/")[:2] == (0, OPEN)
    assert b.curl("http://other.test/")[1].startswith("blocked by policy: ")
    assert box.world.pid not in (None, pid)
    assert not b.errors
    assert len(b.rows(kind="connection", verdict="allowed")) == 3


def until(check):
    end = time.monotonic() + 20
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_supervisor_whose_box_cannot_be_read_comes_again(box):
    b = box(["open.test"], by_hand=True)
    assert b.curl("http://open.test/")[1] == OPEN
    Path(b.folder, SECRETS_FILE).write_text("none")
    b.channel.shutdown(socket.SHUT_RDWR)
    until(lambda: b.answer.get("error"))
    Path(b.folder, SECRETS_FILE).unlink()
    until(lambda: not b.answer.get("error"))
    assert b.curl("http://open.test/")[1] == OPEN


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_connection_goes_on_while_its_supervisor_is_gone(box, by_hand):
    b = box(["open.test:9000", "open.test:8080"], by_hand=by_hand)
    code = (
        "import socket, time\ns = socket.create_connection(('open.test', 9000), 10); s.sendall(b'one'); print(s.recv(9))\n"
        "time.sleep(1.5); s.sendall(b'two'); print(s.recv(9))"
    )
    with ThreadPoolExecutor() as threads:
        done = threads.submit(b.python, code)
        time.sleep(0.7)
        if b.channel is not None:
            b.channel.shutdown(socket.SHUT_RDWR)  # the watching thread attaches again
        else:
            os.kill(b.supervisor, signal.SIGKILL)
            assert b.curl("http://open.test:8080/")[1] == OPEN  # by the next one
    assert done.result()[1] == "b'one'\nb'two'\n"


def test_rules_change_while_it_runs(box):
    b = box(["open.test"])
    assert b.curl("http://open.test/")[1] == OPEN
    assert "blocked by policy" in b.curl("http://other.test/")[1]
    b.change(network=["other.test"])
    assert "blocked by policy" in b.curl("http://open.test/")[1]
    assert b.curl("http://other.test/")[0] == 0
    b.change(network=None)
    box.world.reached()
    assert "blocked by policy" in b.curl("http://other.test/")[1]
    assert box.world.reached() == []


OTHER_ONLY = NetworkRules(allow=("other.test:9000",))
BOTH = NetworkRules(allow=("open.test:9000", "other.test:9000"))
NEAR = NetworkRules(allow=("intranet.test:9000", "other.test:9000"))


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("open.test", BOTH, OTHER_ONLY),
        ("open.test", BOTH, dataclasses.replace(BOTH, deny=(f"cidr:{OPEN}/32",))),
        ("intranet.test", dataclasses.replace(NEAR, private=("10.0.0.5/32",)), NEAR),
    ],
    ids=["of a name", "to an address", "to an address that is near"],
)
def test_connections_that_are_no_longer_allowed_end(box, name, before, after):
    b = box(before)
    code = (
        "import socket, time\n"
        "def made(host):\n s = socket.create_connection((host, 9000), 10); s.sendall(b'1'); s.recv(9); return s\n"
        "def tried(s):\n try:\n  s.sendall(b'2'); return bool(s.recv(9))\n except OSError: return False\n"
        f"one, two = made({name!r}), made('other.test'); time.sleep(1.5); print(tried(one), tried(two))"
    )
    with ThreadPoolExecutor() as threads:
        done = threads.submit(b.python, code)
        time.sleep(0.8)
        b.change(network=after)
    assert done.result()[1] == "False True\n"


@pytest.mark.parametrize("after", [dataclasses.replace(BOTH, deny=(f"cidr:{OPEN}/32",)), OTHER_ONLY, BOTH])
def test_rules_that_change_while_a_connection_is_made_hold_for_it(monkeypatch, after):
    class Upstream(socket.socket):
        def getpeername(self):
            return OPEN, 9000

    async def main():
        policy = BoxPolicy(BOTH, Lookups(lambda host, port: [OPEN], 1))
        made = BoxConnections(policy, GatewayLimits(), Journal(None))
        listener = socket.create_server(("127.0.0.1", 0))
        upstream = Upstream()
        upstream.connect(listener.getsockname())

        async def connect(vetted, deadline):
            policy.replace(after)
            made.recheck()
            return upstream

        monkeypatch.setattr(connections, "connect_async", connect)
        row = made.row(Destination("open.test", 9000))
        with listener, upstream:
            return await made.reach(Destination("open.test", 9000), row) is not None, row.verdict

    assert asyncio.run(main()) == ((True, "allowed") if after is BOTH else (False, "blocked"))


@pytest.mark.parametrize(("after", "goes_on"), [("/bytes", True), ("/other", False)])
def test_a_request_is_judged_by_its_path_when_rules_change(box, after, goes_on):
    b = box(["GET http://open.test:8080/bytes"])
    code = (
        "import socket, time\ndef made():\n return socket.create_connection(('open.test', 8080), 10)\n"
        "def ask(s, count): s.sendall(b'GET /bytes/%d HTTP/1.1\\r\\nHost: open.test:8080\\r\\n\\r\\n' % count); return s.recv(12)\n"
        "one, two, count = made(), made(), 0; ask(one, 30000000); time.sleep(1.5)\n"
        "try:\n one.shutdown(socket.SHUT_WR)\n while data := one.recv(1 << 20): count += len(data)\nexcept OSError: pass\n"
        "print(count >= 30000000, ask(two, 5)[-3:].decode())"
    )
    with ThreadPoolExecutor() as threads:
        done = threads.submit(b.python, code)
        time.sleep(0.8)
        b.change(network=[f"GET http://open.test:8080{after}", "other.test"])
    # The other one had asked for nothing yet.
    assert done.result()[1] == ("True 200\n" if goes_on else "False 403\n")


def test_a_change_holds_for_a_gateway_that_starts_later(box):
    b = box(["open.test"])
    b.change(network=NetworkRules(allow=("other.test",)))
    box.world.kill()
    assert "blocked by policy" in b.curl("http://open.test/")[1]
    assert b.curl("http://other.test/")[0] == 0


def test_boxes_know_nothing_of_each_other(box):
    one, two = box(["open.test"]), box(["other.test"])
    assert one.curl("http://open.test/")[0] == 0
    assert "blocked" in two.curl("http://open.test/")[1]
    assert two.curl("http://other.test/")[0] == 0
    assert {row.host for row in one.rows()} == {"open.test"}
    assert set(box.world.ask("status").boxes) >= {one.id, two.id}
    two.close()
    two.close = lambda: None
    assert two.id not in box.world.ask("status").boxes
    assert one.curl("http://open.test/")[1] == OPEN


def test_why(box):
    b = box(["open.test:443"])
    assert b.curl("https://other.test/")[0] == 7
    why = box.world.ask("why", box=b.id, host="other.test", port=443).why
    assert "other.test:443" in why
    assert "network=" in why
    assert box.world.ask("why", box=b.id, host="open.test", port=443).why == ""
    assert [d.allowed for d in box.world.ask("decisions", box=b.id).decisions] == [False]
