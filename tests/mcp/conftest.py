"""Real servers: one as a process for all tests that leave it alive, and one over HTTP on the loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

try:
    from mcp import StdioServerParameters

    from gloveport.mcp import McpServer
except ImportError:
    collect_ignore_glob = ["test_*.py"]

SCRIPT = str(Path(__file__).with_name("office_server.py"))


def office_process():
    return StdioServerParameters(command=sys.executable, args=[SCRIPT, "stdio"], env=dict(os.environ))


@pytest.fixture(scope="module")
def office():
    with McpServer(office_process()) as server:
        yield server


class HttpOffice:
    """The server over HTTP; it can be stopped and started again at the same address."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, SCRIPT, "http", str(self.port)])
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until, "the test server does not start"
                time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def http_office():
    office = HttpOffice()
    yield office
    office.stop()
