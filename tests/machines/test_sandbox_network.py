"""`network=` of machines: what is written down for the gateway, and what comes of it where the host gives machines a network."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
import urllib.error
import urllib.request

import pytest

from gloveport import AsyncSandbox, NetworkConfig, NetworkSecret, Sandbox
from gloveport.errors import CapabilityError, ValidationError
from gloveport.host.machines import base
from gloveport.machines.estate import estate

from .conftest import ADMIN, eventually

GET = """python3 - <<'E'
import socket
try:
    print(socket.create_connection(({!r}, {}), 5).recv(10).decode())
except OSError as error:
    print(error)
E"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def server():
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"reached")

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing: only the address of this host is looked up
        except OSError:
            pytest.skip("this host has no address but those of its loopback")
        host = asking.getsockname()[0]
    with socketserver.ThreadingTCPServer((host, 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_address
        listening.shutdown()


@pytest.fixture
def has_network():
    if Sandbox.capabilities().net != "rules":
        pytest.skip("machines have no network on this host")


@pytest.fixture
def as_if(monkeypatch):
    """For what is written down: as if this host gave machines a network."""
    real = base.capabilities

    def capabilities(found, driver=None):
        import dataclasses

        return dataclasses.replace(real(found, driver), net="rules")

    monkeypatch.setattr(base, "capabilities", capabilities)


def plan(sandbox):
    return json.loads((estate().folder(sandbox.id) / "network.json").read_text())


def spec(sandbox):
    return (estate().folder(sandbox.id) / "spec").read_bytes().split(b"\0")


def test_none_by_default(shared):
    assert b"network=none" in spec(shared)
    shown = shared.commands.run(
        "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '; cat /proc/net/route | wc -l"
    ).stdout.split()
    assert shown == ["lo", "1"]
    result = shared.commands.run(GET.format("93.184.216.34", 80))
    assert "unreachable" in result.stdout
    with pytest.raises(ValidationError, match="made without a network"):
        shared.update(network=["pypi.org"])
    shared.update(network=None)
    assert shared.get_info().network is None


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("pypi.org", "internet"),
        (7, "network"),
        ({"allow": []}, "unknown key"),
        ([7], "NetworkRule"),
        (["http://"], "rule|host"),
        (True, "network"),
    ],
)
def test_what_cannot_be_read(network, words):
    before = len(Sandbox.list())
    with pytest.raises(ValidationError, match=words):
        Sandbox.create(network=network)
    assert len(Sandbox.list()) == before


def test_secrets_need_a_network():
    with pytest.raises(ValidationError, match="there is no network"):
        Sandbox.create(secrets={"KEY": NetworkSecret(value="0123456789", hosts=["a.example"])})


def test_refused_where_the_host_gives_none(monkeypatch):
    import dataclasses

    real = base.capabilities
    monkeypatch.setattr(
        base, "capabilities", lambda found, driver=None: dataclasses.replace(real(found, driver), net="none")
    )
    before = len(Sandbox.list())
    with pytest.raises(CapabilityError) as error:
        Sandbox.create(network=["pypi.org"])
    assert error.value.missing == ("net",)
    assert len(Sandbox.list()) == before


def test_what_is_written_down(as_if, state):
    with Sandbox.create(network=NetworkConfig(allow_out=["pypi.org"]), env_vars={"A": "b"}) as sandbox:
        assert plan(sandbox)["rules"]["allow"][0]["host"] == "pypi.org"
        assert b"network=gateway" in spec(sandbox)
        assert b"gateway_socket=" + os.fsencode(state / "gateway.sock") in spec(sandbox)
        assert sandbox.get_info().network["allow"] == ["pypi.org:*"]
        sandbox.update(network=["github.com"], metadata={"a": "b"})
        assert plan(sandbox)["rules"]["allow"][0]["host"] == "github.com"
        assert sandbox.get_info().network["allow"] == ["github.com"]
        assert sandbox.get_info().metadata == {"a": "b"}
        with pytest.raises(ValidationError):
            sandbox.update(network="pypi.org")
        assert sandbox.get_info().network["allow"] == ["github.com"]
        sandbox.update(network=None)
        assert sandbox.get_info().network is None
        assert not plan(sandbox).get("rules")
        sandbox.update(network=["pypi.org"])  # there is none now, and there was one: it may come back
        (twin,) = sandbox.fork()
        with twin:
            assert plan(twin)["box"] == twin.id
            assert plan(twin)["rules"] == plan(sandbox)["rules"]
            assert b"network=gateway" in spec(twin)


def test_what_a_secret_leaves_in_the_machine(as_if):
    pytest.importorskip("cryptography")
    secret = NetworkSecret(value="the-real-value", hosts=["api.example.com"])
    with Sandbox.create(network=["api.example.com:443"], secrets={"TOKEN": secret}, env_vars={"OTHER": "x"}) as sandbox:
        shown = sandbox.commands.run(
            "echo $TOKEN; echo $SSL_CERT_FILE; head -c 27 /etc/gloveport/authority.pem; echo; echo $OTHER"
        )
        token, bundle, pem, other = shown.stdout.splitlines()
        assert token.startswith("gloveport-token-")
        assert (bundle, pem, other) == ("/etc/gloveport/ca-bundle.pem", "-----BEGIN CERTIFICATE-----", "x")
        told = sandbox.commands.run("stat -c %U:%a /etc /etc/gloveport /etc/gloveport/authority.pem", user=ADMIN).stdout
        assert [line.split(":")[1] for line in told.split()] == ["755", "755", "644"]
        everything = sandbox.commands.run(
            "env; grep -rs the-real-value /etc /workspace /tmp | head -1", user=ADMIN
        ).stdout
        assert "the-real-value" not in everything
        assert (estate().folder(sandbox.id) / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_machine_from_a_snapshot_has_placeholders_of_its_own(as_if):
    pytest.importorskip("cryptography")
    given = {
        "network": ["api.example.com:443"],
        "secrets": {"TOKEN": NetworkSecret(value="the-real-value", hosts=["api.example.com"])},
        "env_vars": {"OTHER": "x"},
    }
    with Sandbox.create(**given) as first:
        old = first.commands.run("echo $TOKEN").stdout.strip()
        shot = first.snapshot("with-secrets")
    try:
        with Sandbox.create(from_snapshot=shot, network=given["network"], secrets=given["secrets"]) as second:
            token, other = second.commands.run("echo $TOKEN; echo $OTHER").stdout.splitlines()
            (secret,) = json.loads((estate().folder(second.id) / "secrets.json").read_text())["secrets"]
    finally:
        Sandbox.delete_snapshot(shot)
    assert token == secret["placeholder"] != old
    assert other == "x"  # the control: the rest of its environment is the snapshot's


def test_a_pool_with_a_network(as_if):
    with Sandbox.pool(1, network=["pypi.org"]) as pool, pool.create("job", env_vars={"A": "b"}) as sandbox:
        assert plan(sandbox)["rules"]["allow"][0]["host"] == "pypi.org"
        assert sandbox.commands.run("echo $A").stdout == "b\n"


def test_through_the_gateway(has_network, server):
    """A server of the host, by a rule that names it; nothing else; and other rules hold at once."""
    host, port = server
    with Sandbox.create(network=[f"{host}:{port}"]) as sandbox:
        run = sandbox.commands.run
        assert run(GET.format(host, port)).stdout == "reached\n"
        assert run(GET.format(host, port + 1)).stdout != "reached\n"
        (row,) = [row for row in sandbox.get_network_log() if row.port == port]
        assert (row.verdict, row.host, row.bytes_in) == ("allowed", host, 7)
        blocked = sandbox.get_network_log(verdict="blocked")
        assert [(row.host, row.port) for row in blocked] == [(host, port + 1)]
        assert str(port + 1) in blocked[0].reason
        sandbox.update(network=[])
        assert run(GET.format(host, port)).stdout != "reached\n"
        Sandbox.update_by_id(sandbox.id, network=[f"{host}:{port}"])
        assert run(GET.format(host, port)).stdout == "reached\n"
        sandbox.pause()
        sandbox.resume()
        assert run(GET.format(host, port)).stdout == "reached\n"
        with sandbox.fork()[0] as twin:  # with the network of the one that it was made of
            assert twin.commands.run(GET.format(host, port)).stdout == "reached\n"


def test_a_machine_that_is_started_again_has_its_network(has_network, server):
    host, port = server
    with Sandbox.create(network=[f"{host}:{port}"]) as sandbox:
        record = estate().record(sandbox.id)
        estate().driver(record).kill(estate().folder(sandbox.id), "test")
        again = Sandbox.connect(sandbox.id)
        assert again.found == "restarted"
        assert again.commands.run(GET.format(host, port)).stdout == "reached\n"


def test_a_port_that_leads_in(has_network):
    with Sandbox.create(network=[]) as sandbox:
        sandbox.files.write("/workspace/index.html", "hello from inside")
        sandbox.commands.start("python3 -m http.server 8000 --bind 127.0.0.1")
        eventually(
            lambda: (
                sandbox.commands.run("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))'").ok
            )
        )
        shown = sandbox.preview(8000)
        assert fetch(shown.url) == (200, "hello from inside")
        assert sandbox.previews() == [shown]
        private = sandbox.preview(8000, private=True)
        assert private.token and private.token not in repr(private)
        plain = private.url.partition("?")[0]
        assert fetch(plain)[0] == 401
        assert fetch(plain, {"X-Gloveport-Token": private.token}) == (200, "hello from inside")
        sandbox.close_preview(8000)
        assert sandbox.previews() == []
        with pytest.raises(OSError):
            fetch(private.url)


@pytest.mark.anyio
async def test_async(has_network, server):
    host, port = server
    async with await AsyncSandbox.create(network=[f"{host}:{port}"]) as sandbox:
        assert (await sandbox.commands.run(GET.format(host, port))).stdout == "reached\n"
        await sandbox.update(network=[])
        assert (await sandbox.commands.run(GET.format(host, port))).stdout != "reached\n"
        assert [row.verdict for row in await sandbox.get_network_log()] != []
        assert await sandbox.previews() == []


def fetch(url, headers=()):
    try:
        keeps_cookies = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with keeps_cookies.open(urllib.request.Request(url, headers=dict(headers)), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
