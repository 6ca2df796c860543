"""Ports of a real box on this machine's loopback."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import time
import urllib.error
import urllib.request

import pytest

from gloveport import Sandbox
from gloveport.egress.gateway.boxes.commands import Command
from gloveport.egress.gateway.launching import DaemonClient
from gloveport.machines.estate import estate

SERVE = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = os.urandom(1) * 3_000_000 if self.path == "/large" else b"page of the box"
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Page).serve_forever()
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    root = str(tmp_path_factory.mktemp("previews") / "state")
    patch = pytest.MonkeyPatch()
    patch.setenv("GLOVEPORT_STATE", root)
    if Sandbox.capabilities().isolation == "none":
        pytest.skip(f"no machines here: {Sandbox.capabilities().problem}")
    client = DaemonClient(root)
    yield client
    for record in estate().registry.find():
        estate().kill(record.id)
    client.ask(Command("end"))
    patch.undo()


@pytest.fixture(params=[None, []])
def serving(state, request):
    """A box that serves port 5000: without a network, and with one that leads nowhere."""
    with Sandbox.create(network=request.param) as box:
        box.files.write("/workspace/serve.py", SERVE)
        box.commands.start("python3 /workspace/serve.py")
        box.commands.run("until curl -so /dev/null http://127.0.0.1:5000/; do sleep 0.02; done", timeout_seconds=20)
        yield box


def got(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


def test_a_page(serving):
    shown = serving.preview(5000)
    assert got(shown.url) == b"page of the box"
    assert len(got(f"{shown.url}large")) == 3_000_000
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(got, [shown.url] * 16)) == [b"page of the box"] * 16


def test_a_port_on_which_nobody_listens(serving):
    shown = serving.preview(5001)
    with pytest.raises(urllib.error.HTTPError) as error:
        got(shown.url)
    assert error.value.code == 502
    assert "port 5001 of the sandbox does not answer" in error.value.read().decode()


def test_it_wakes_the_box(serving):
    shown = serving.preview(5000)
    assert got(shown.url) == b"page of the box"
    serving.pause()
    assert got(shown.url) == b"page of the box"


def test_it_outlives_the_gateway_and_ends_with_the_box(serving, state):
    shown = serving.preview(5000)
    os.kill(state.ask(Command("status")).pid, 9)
    state.ask(Command("status"), start=True)  # it answers when it has taken up what there was
    assert got(shown.url) == b"page of the box"
    serving.kill()
    for _ in range(1500):
        try:
            socket.create_connection(("127.0.0.1", shown.host_port), 5).close()
        except ConnectionRefusedError:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("the port is still there")
