"""The network of machines of gVisor, as their users have it: a proxy, and nothing else."""

from __future__ import annotations

import concurrent.futures
import http.server
import os
import select
import signal
import socket
import threading
import urllib.request
from pathlib import Path

import pytest

from gloveport import CapabilityError, NetworkRules, NetworkSecret, Sandbox
from gloveport.egress.gateway.boxes.commands import Command
from gloveport.egress.gateway.launching import DaemonClient
from gloveport.machines.estate import estate

from ..machines.conftest import eventually

SLOW = threading.Event()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = {
            "/large": b"x" * 3_000_000,
            "/told": (self.headers.get("Authorization") or "nothing").replace("real-value", "VALUE").encode(),
        }.get(self.path, b"reached")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/slow":
            self.wfile.flush()
            SLOW.wait(60)
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    """Its host and port: an address of this host that is not of its loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing: only the address of this host is looked up
        except OSError:
            pytest.skip("this host has no address but those of its loopback")
        host = asking.getsockname()[0]
    with http.server.ThreadingHTTPServer((host, 0), Page) as listening:
        listening.handle_error = lambda *_: None
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_address
        SLOW.set()
        listening.shutdown()


@pytest.fixture(scope="module")
def rules(server):
    host, port = server
    return NetworkRules(allow=(f"http://{host}:{port}",), private=(f"{host}/32",))


@pytest.fixture(scope="module")
def url(server):
    return f"http://{server[0]}:{server[1]}"


@pytest.fixture(scope="module")
def gateway(state):
    client = DaemonClient(str(state))
    yield client
    client.ask(Command("end"))


@pytest.fixture(scope="module")
def networked(state, gateway, rules):
    """One machine for tests that leave it as it was."""
    with Sandbox.create("networked", driver="gvisor", network=rules) as sandbox:
        yield sandbox


def curl(sandbox, *arguments, **more):
    return sandbox.commands.run(["curl", "-sS", "--max-time", "20", *arguments], **more)


def end(pid):
    """Kill a process and wait for that: until then a gateway may take connections along that it has just accepted."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        assert select.select([descriptor], [], [], 10)[0]
    finally:
        os.close(descriptor)


def test_what_is_said_of_it():
    Sandbox.create(driver="gvisor", require={"net": "proxy"}).kill()
    with pytest.raises(CapabilityError):
        Sandbox.create(driver="gvisor", require={"net": "rules"}, network=[])


def test_by_the_rules(networked, url, server):
    assert curl(networked, url).stdout == "reached"
    assert len(curl(networked, f"{url}/large", max_output_bytes=4_000_000).stdout) == 3_000_000
    refused = curl(networked, "http://example.com/")
    assert refused.stdout.startswith("blocked by policy: GET http://example.com is not on the allow list")
    tunnel = curl(networked, "https://example.com/")
    assert tunnel.exit_code != 0 and "403" in tunnel.stderr
    log = networked.get_network_log(50)
    assert {(row.host, row.verdict) for row in log} == {(server[0], "allowed"), ("example.com", "blocked")}
    network = Sandbox.connect(networked.id)
    assert "not on the allow list" in (network_of(network).why("example.com", 443) or "")


def network_of(sandbox):
    from gloveport.host.machines.network_control import SandboxNetwork

    return SandboxNetwork(str(estate().root), sandbox.id)


def test_many_at_a_time(networked, url):
    script = f"for i in $(seq 40); do curl -s --max-time 20 {url}/large | wc -c & done; wait"
    assert networked.commands.run(script).stdout.split() == ["3000000"] * 40
    assert curl(networked, url).stdout == "reached"


def test_nothing_else_leads_out(networked, server):
    """By root in it as well."""
    code = (
        "import socket\n"
        f"for a in [({server[0]!r}, {server[1]}), ('127.0.0.1', {server[1]}), ('169.254.169.254', 80)]:\n"
        "    try: socket.create_connection(a, 2); print('open')\n"
        "    except OSError as e: print(type(e).__name__)"
    )
    said = networked.commands.run(["python3", "-c", code], user="0").stdout
    assert "open" not in said and len(said.split()) == 3


def test_its_root_cannot_touch_the_socket(networked, url):
    folder = estate().folder(networked.id) / "net"
    for what in (
        "rm proxy.sock",
        "mv proxy.sock other",
        "ln -s /etc/passwd x",
        "touch x",
        "mount -o remount,rw /.gloveport/net",
    ):
        result = networked.commands.run(f"cd /.gloveport/net && {what}", user="0")
        assert result.exit_code != 0, what
    assert os.listdir(folder) == ["proxy.sock"]
    assert networked.commands.run("ls /.gloveport/net").exit_code != 0  # who is not root does not see it at all
    assert curl(networked, url).stdout == "reached"


def test_the_machine_is_not_told_of_the_host(networked, state):
    said = networked.commands.run("cat /.gloveport/run/spec; mount; env", user="0").stdout
    assert str(state) not in said and "gateway" not in said


def test_rules_change_while_it_runs(networked, url, rules):
    networked.update(network=[])
    assert "blocked by policy" in curl(networked, url).stdout
    networked.update(network=rules)
    assert curl(networked, url).stdout == "reached"


def test_it_is_there_after_a_pause(networked, url):
    slow = networked.commands.start(f"curl -sS --max-time 50 {url}/slow")
    eventually(lambda: any(row.path == "/slow" for row in networked.get_network_log()))
    networked.pause()
    assert networked.status == "paused"
    assert curl(networked, url).stdout == "reached"
    assert slow.wait(30).exit_code != 0  # a connection does not outlive a pause


def test_it_outlives_its_gateway(networked, url, gateway):
    assert curl(networked, url).stdout == "reached"
    end(gateway.ask(Command("status")).pid)
    assert curl(networked, url).stdout == "reached"
    networked.pause()
    end(gateway.ask(Command("status"), start=True).pid)
    done = curl(networked, url)
    assert done.stdout == "reached", done


def test_the_gateway_is_nobodys(networked, url, gateway):
    """One that a machine's keeper has started is not in the machine's control groups or namespaces."""
    end(gateway.ask(Command("status")).pid)
    assert curl(networked, url).stdout == "reached"
    pid = gateway.ask(Command("status")).pid
    assert networked.id not in Path(f"/proc/{pid}/cgroup").read_text()
    for name in ("mnt", "user", "net"):
        assert os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}")


def test_forks_are_boxes_of_their_own(state, gateway, rules, url):
    with Sandbox.create("parent", driver="gvisor", network=rules) as parent:
        assert curl(parent, url).stdout == "reached"
        (twin,) = parent.fork()
        with twin:
            assert curl(twin, url).stdout == "reached"
            parent.update(network=[])
            assert "blocked by policy" in curl(parent, url).stdout
            assert curl(twin, url).stdout == "reached"
            assert {row.verdict for row in twin.get_network_log()} == {"allowed"}
            assert gateway.ask(Command("status")).boxes.count(twin.id) == 1


def test_secrets(state, gateway, rules, url):
    key = {"API_KEY": NetworkSecret(value="real-value", hosts=[url])}
    with Sandbox.create("secrets", driver="gvisor", network=rules, secrets=key) as sandbox:
        assert "real-value" not in sandbox.commands.run("env").stdout
        told = sandbox.commands.run(f'curl -s -H "Authorization: $API_KEY" {url}/told').stdout
        assert told == "VALUE"
        other = sandbox.commands.run('curl -s -H "Authorization: $API_KEY" http://example.com/').stdout
        assert "placeholder" in other
        assert any(row.violation for row in sandbox.get_network_log())


def test_files_of_secrets_are_in_it(state, gateway):
    pytest.importorskip("cryptography")
    key = {"API_KEY": NetworkSecret(value="real-value", hosts=["api.example.com"])}
    with Sandbox.create("authority", driver="gvisor", network=["api.example.com"], secrets=key) as sandbox:
        look = 'stat -c "%u %a" $SSL_CERT_FILE && grep -c BEGIN $NODE_EXTRA_CA_CERTS; ls -A /.gloveport/run'
        found = sandbox.commands.run(look, user="0")
        assert found.stdout.split()[:3] == ["0", "644", "1"]
        assert "fill" not in found.stdout
        sandbox.pause()
        (twin,) = sandbox.fork()
        with twin:
            assert twin.commands.run("test -s $SSL_CERT_FILE && echo there").stdout == "there\n"


@pytest.mark.parametrize("network", [None, []])
def test_ports_that_lead_in(state, gateway, network):
    with Sandbox.create("ports", driver="gvisor", network=network) as sandbox:
        sandbox.files.write("/workspace/index.html", "a page")
        sandbox.commands.start("python3 -m http.server 5000 --bind 127.0.0.1")
        sandbox.commands.run("until curl -so /dev/null http://127.0.0.1:5000/; do sleep 0.02; done", check=True)
        shown = sandbox.preview(5000)

        def got(_=None):
            with urllib.request.urlopen(shown.url, timeout=20) as answer:
                return answer.read()

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert list(pool.map(got, range(8))) == [b"a page"] * 8
        with socket.create_connection(("127.0.0.1", shown.host_port), 20) as kept:
            kept.sendall(b"GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n")
            assert kept.recv(15) == b"HTTP/1.0 200 OK"
            sandbox.pause()
            kept.settimeout(20)
            while kept.recv(65536):
                pass  # it ends, and does not hang
        assert sandbox.status == "paused"
        assert got() == b"a page"  # wakes it
