"""Each attack of `modules/` on a module's worker: none gets what it is after.

A case is a module that returns what it got, or throws. In it, `@SECRET_JSON` is a file of the host, `@PORT` a server on the host's
loopback, `@HOST` the host's process.
"""

from __future__ import annotations

import http.server
import os
import threading
from pathlib import Path

import pytest

from gloveport import Runtime, RuntimePermissions

from ..modules.conftest import opened

FOLDER = Path(__file__).parent / "modules"
CASES = sorted(path.stem for path in FOLDER.glob("*.ts"))
SECRET = "the-secret-of-the-host"


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        body = f'export default "{SECRET}"'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    folder.chmod(0o755)
    secret = folder / "secret.json"
    secret.write_text(f'{{"key": "{SECRET}"}}')
    secret.chmod(0o644)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["GLOVEPORT_TEST_SECRET"] = SECRET
    yield {"@SECRET_JSON": str(secret), "@PORT": str(server.server_port), "@HOST": str(os.getpid()), "server": server}
    del os.environ["GLOVEPORT_TEST_SECRET"]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def victim():
    with opened() as session:
        yield session


def source(name, surroundings):
    text = (FOLDER / f"{name}.ts").read_text("utf-8")
    for word, value in surroundings.items():
        if word.startswith("@"):
            text = text.replace(word, value)
    return text


@pytest.mark.parametrize("name", CASES)
def test_none_gets_through(victim, surroundings, name):
    if "worker" in name:  # a thread that an earlier case left would take the memory for another one
        victim.call(victim.session.reset)
    result = victim(source(name, surroundings), timeout=20)
    assert not result.ok, result.value
    assert result.exit_reason != "timeout"
    for text in (result.error, result.stdout, result.stderr, str(result.value)):
        assert SECRET not in text
    assert surroundings["server"].seen == []
    assert not (victim.session.workspace / "planted").exists()
    assert victim("1").value == 1


GRANTED = ["worker_reads_file", "node_worker_reads_file", "ask_for_permission", "environment"]


@pytest.mark.parametrize("name", GRANTED)
def test_the_attacks_work_where_they_are_granted(surroundings, name):
    """The control: what is refused above is what the cases are after."""
    permissions = RuntimePermissions(allow_read=[surroundings["@SECRET_JSON"]], allow_env=["GLOVEPORT_TEST_SECRET"])
    with opened(runtime=Runtime(permissions=permissions)) as session:
        assert SECRET in session.value(source(name, surroundings), timeout=20)
