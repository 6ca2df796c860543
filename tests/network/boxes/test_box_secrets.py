"""Secrets: the value reaches the hosts it is for, and never the box."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys

import pytest

from gloveport.errors import EngineUnavailableError
from gloveport.host.machines.network_secrets import NetworkSecret, prepare_secrets

VALUE = "real-value-of-it"


@pytest.fixture
def secret_box(box):
    """A box with a secret for `files.test`, port 8001 (TLS) and 8000 (plain)."""
    if not box.world.authority:
        pytest.skip("needs cryptography")

    def make(
        network=("https://files.test:8001", "http://files.test:8000", "open.test", "https://open.test:4443"), hosts=None
    ):
        b = box(None)
        secret = NetworkSecret(value=VALUE, hosts=hosts or ["files.test:8001", "http://files.test:8000"])
        b.prepared = prepare_secrets(b.folder, {"API_KEY": secret})
        b.environment = dict(b.prepared.environment)
        for path, content in b.prepared.files.items():
            if path.startswith("/etc/gloveport/"):
                here = b.put(os.path.basename(path), content)
                b.environment = {k: here if v == path else v for k, v in b.environment.items()}
        b.change(network=list(network))
        b.key = b.environment["API_KEY"]
        return b

    return make


def test_the_value_is_put_in_for_its_host(secret_box):
    b = secret_box()
    assert VALUE not in str(b.prepared)
    for url in ("https://files.test:8001/echo-not", "http://files.test:8000/echo-not"):
        code, out, err = b.curl("-H", f"Authorization: Bearer {b.key}", url, env=b.environment)
        assert (code, out) == (0, "seen: True"), err
        row = b.rows(kind="request")[-1]
        assert (row.secret, row.status, row.path, row.violation) == ("API_KEY", 200, "/echo-not", False)
    code, out, _ = b.curl("https://files.test:8001/echo-not", env=b.environment)
    assert (code, out) == (0, "seen: False")
    assert b.rows(kind="request")[-1].secret == ""
    assert VALUE not in "".join(map(str, b.rows()))


def test_basic_credentials(secret_box):
    b = secret_box()
    code, out, err = b.curl("-u", f"user:{b.key}", "https://files.test:8001/echo-basic", env=b.environment)
    assert (code, out) == (0, "seen: True"), err


@pytest.mark.parametrize(
    "arguments",
    [
        ["-H", "X-Key: {key}", "http://open.test/"],
        ["-u", "user:{key}", "http://open.test/"],
        ["http://open.test/?key={key}"],
        ["http://files.test:8000/echo-not?key={key}"],
        ["https://files.test:8001/echo-not?key={key}"],
    ],
)
def test_a_placeholder_goes_nowhere_else(secret_box, arguments, box):
    b = secret_box()
    code, out, err = b.curl(*[text.format(key=b.key) for text in arguments], env=b.environment)
    assert code == 0, err
    assert out.startswith("blocked by policy: the placeholder of the secret 'API_KEY' is not for ")
    row = b.rows(kind="request")[-1]
    assert (row.secret, row.violation, row.verdict, row.status) == ("API_KEY", True, "blocked", 403)
    assert box.world.reached() == []
    assert b.curl("http://open.test/", env=b.environment)[0] == 0


@pytest.mark.parametrize(
    "how", [["-H", "Authorization: Bearer {key}"], ["-u", "x:{key}"], ["-u", "xy:{key}"], ["-u", "xyz:{key}"]]
)
@pytest.mark.parametrize("url", ["https://files.test:8001/echo", "http://files.test:8000/echo"])
def test_no_answer_brings_the_value(secret_box, how, url):
    b = secret_box()
    code, out, err = b.curl(*[text.format(key=b.key) for text in how], url, env=b.environment)
    assert VALUE not in out + err
    assert base64.b64encode(VALUE.encode())[:8].decode() not in out
    row = b.rows(kind="request")[-1]
    assert row.violation
    assert "repeats a secret" in row.reason
    code, out, _ = b.curl("-H", "X-Other: thing", url, env=b.environment)
    assert "X-Other: thing" in out


def test_the_rules_hold_for_its_hosts_too(secret_box):
    b = secret_box(["GET https://files.test:8001/echo-not"])
    assert b.curl("-H", f"X: {b.key}", "https://files.test:8001/echo-not", env=b.environment)[1] == "seen: True"
    for more in (["-X", "POST", "https://files.test:8001/echo-not"], ["https://files.test:8001/other"]):
        code, out, err = b.curl(*more, env=b.environment)
        assert (code, "blocked by policy" in out) == (0, True), err


HOST = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
t = context.wrap_socket(socket.create_connection(("files.test", 8001), 10), server_hostname="files.test")
t.sendall(b"GET /echo-not HTTP/1.1\\r\\nHost: " + sys.argv[2].encode() + b"\\r\\n\\r\\n")
print(t.selected_alpn_protocol(), t.recv(1000).decode())
"""


@pytest.mark.parametrize(("host", "fine"), [("files.test:8001", True), ("open.test", False), ("files.test", False)])
def test_requests_name_the_host_of_the_connection(secret_box, host, fine):
    b = secret_box()
    bundle = b.environment["SSL_CERT_FILE"]
    _, out, err = b.run(b.interpreter, "-I", "-c", HOST, bundle, host)
    assert ("200 OK" in out) == fine, err
    assert ("403" in out) != fine


def test_bodies_both_ways_and_many_requests_on_a_connection(secret_box):
    b = secret_box()
    content = os.urandom(1 << 20) * 8
    (b.world.served / "big").write_bytes(content)
    here = b.put("big", content)
    url = "https://files.test:8001"
    code, out, err = b.curl(
        "-o",
        "/dev/null",
        "-w",
        "%{size_download} %{num_connects} ",
        f"{url}/big",
        "-o",
        "/dev/null",
        f"{url}/big",
        env=b.environment,
    )
    assert (code, out) == (0, f"{8 << 20} 1 {8 << 20} 0 "), err
    code, out, err = b.curl(
        "-H",
        "Expect: 100-continue",
        "--data-binary",
        f"@{here}",
        f"{url}/x",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
        env=b.environment,
    )
    assert (code, out) == (0, str(8 << 20)), err
    assert b.rows(kind="request")[-1].bytes_out == 8 << 20


def test_a_server_that_nobody_vouches_for_is_not_believed(secret_box):
    """The box cannot see the server's certificate: the gateway checks it."""
    b = secret_box(["https://unknown.test:4443", "https://open.test:4443"], ["unknown.test:4443", "open.test:4443"])
    code, out, _ = b.curl("https://open.test:4443/", env=b.environment)
    assert (code, out) == (0, "93.184.216.34")
    import json
    import signal

    names = json.loads((b.world.folder / "world.json").read_text())
    names["files"].append("unknown.test")
    (b.world.folder / "world.json").write_text(json.dumps(names))
    b.world.kill()
    code, out, _ = b.curl("https://unknown.test:4443/", env=b.environment)
    assert code == 0
    assert "the certificate is not valid" in out
    assert signal


def test_the_authority_is_for_the_named_hosts_only(tmp_path):
    pytest.importorskip("cryptography")
    from cryptography import x509

    prepared = prepare_secrets(
        str(tmp_path), {"K": NetworkSecret(value=VALUE, hosts=["api.example.com", "*.example.org"])}
    )
    (authority,) = x509.load_pem_x509_certificates(prepared.files["/etc/gloveport/authority.pem"])
    constraints = authority.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert [name.value for name in constraints.value.permitted_subtrees] == ["api.example.com", "example.org"]
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "secrets.json").read_text()
    assert text.count("PRIVATE KEY") == 2  # begin and end of one: the certificate's, not the authority's
    assert VALUE not in repr(prepared) + repr(NetworkSecret(value=VALUE, hosts=["a.example"]))
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=prepared.files["/etc/gloveport/authority.pem"].decode())


@pytest.mark.parametrize(
    ("secret", "hosts"),
    [
        ("short", ["a.example"]),
        ("with space in it", ["a.example"]),
        (VALUE, "a.example"),
        (VALUE, []),
        (VALUE, ["a.example/path"]),
        (VALUE, ["*"]),
        (VALUE, ["127.1"]),
    ],
)
def test_secrets_that_cannot_be(secret, hosts):
    with pytest.raises(ValueError):
        NetworkSecret(value=secret, hosts=hosts)
    NetworkSecret(value=VALUE, hosts=["a.example"])


def test_without_cryptography(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(EngineUnavailableError, match="encryption"):
        prepare_secrets(str(tmp_path), {"K": NetworkSecret(value=VALUE, hosts=["a.example"])})
    prepare_secrets(str(tmp_path), {"K": NetworkSecret(value=VALUE, hosts=["http://a.example"])})


def test_programs_trust_it(secret_box):
    """By the environment that comes with the secrets."""
    b = secret_box()
    code = (
        "import urllib.request as u, os\n"
        "r = u.Request('https://files.test:8001/echo-not', headers={'X': os.environ['API_KEY']}); print(u.urlopen(r).read())"
    )
    assert b.python(code, env=b.environment)[1] == "b'seen: True'\n"
    assert "CERTIFICATE_VERIFY_FAILED" in b.python(code, env={"API_KEY": b.key})[2]
    node = "fetch('https://files.test:8001/echo-not', {headers: {x: process.env.API_KEY}}).then(r => r.text()).then(console.log)"
    if subprocess.run(["which", "node"], capture_output=True).returncode == 0:
        assert b.run("node", "-e", node, env=b.environment)[1] == "seen: True\n"
