"""The wire to a language server that was taken over: it can cost no time, and nothing of the host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import pytest

from gloveport.engines.checker import lsp
from gloveport.engines.checker.lsp import ServerDied, ServerTimeout, Wire
from gloveport.engines.toolbox.connection import Child


def nothing():
    pass


@pytest.fixture
def pipes():
    """A wire over two pipes, and the server's ends of them: what it reads, what it writes."""
    read_fd, their_output = os.pipe()
    their_input, write_fd = os.pipe()
    held = {read_fd, their_output, their_input, write_fd}
    yield Wire(Child(0, read_fd, write_fd, nothing, nothing, nothing)), their_input, their_output, held
    for fd in held:
        os.close(fd)


@pytest.fixture
def fake():
    """A wire whose other end the test holds."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Wire(Child(0, ours.fileno(), ours.fileno(), nothing, nothing, nothing)), theirs


def framed(body):
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def test_a_server_that_hangs_up_and_does_not_read_ends_the_check(pipes):
    wire, their_input, their_output, held = pipes
    os.close(their_output)
    held.remove(their_output)
    said = []

    def ask():
        try:
            wire.notify("x", {"text": "x" * 200_000}, time.monotonic() + 5.0)
        except Exception as error:
            said.append(type(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(15)
    went_on = thread.is_alive()
    os.close(their_input)  # ends one that goes on for ever
    held.remove(their_input)
    thread.join()
    assert (went_on, said) == (False, [ServerDied])


def test_a_server_that_reads_nothing_and_says_nothing_is_waited_for_until_the_deadline(pipes):
    wire, *_ = pipes
    with pytest.raises(ServerTimeout):
        wire.notify("x", {"text": "x" * 200_000}, time.monotonic() + 0.2)


def test_nothing_is_sent_after_the_deadline(fake):
    wire, theirs = fake
    with pytest.raises(ServerTimeout):
        wire.notify("x", {}, time.monotonic() - 1)
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    wire.notify("x", {}, time.monotonic() + 30)
    assert theirs.recv(100)


def test_messages_without_an_end_do_not_defer_the_deadline(fake, monkeypatch):
    wire, theirs = fake
    theirs.sendall(framed(b'{"method":"window/logMessage"}') * 500 + framed(b'{"id":1,"result":7}'))
    now = iter(range(10_000))
    monkeypatch.setattr(lsp, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    with pytest.raises(ServerTimeout):
        wire.request("x", {}, 200)


def test_the_same_messages_in_time(fake):
    wire, theirs = fake
    theirs.sendall(framed(b'{"method":"window/logMessage"}') * 500 + framed(b'{"id":1,"result":7}'))
    assert bytes(wire.request("x", {}, time.monotonic() + 30)) == b"7"


def test_the_caller_can_be_told_to_stop(fake):
    wire, _ = fake
    asked = []
    wire.unwanted = lambda: asked.append(1) or len(asked) > 4
    with pytest.raises(lsp.ServerUnwanted):
        wire.request("x", {}, time.monotonic() + 600)


HOST = """
import os, signal, time
from gloveport.engines.checker.lsp import ServerDied, Wire
from gloveport.engines.toolbox.connection import Child

signal.signal(signal.SIGPIPE, signal.SIG_DFL)
read_fd, _ = os.pipe()
their_input, write_fd = os.pipe()
os.close(their_input)
wire = Wire(Child(0, read_fd, write_fd, print, print, print))
try:
    wire.notify("x", {}, time.monotonic() + 30)
except ServerDied:
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) and not signal.sigpending()
    print("alive", flush=True)
os.kill(os.getpid(), signal.SIGPIPE)
print("ignored")
"""


def test_a_server_that_has_ended_does_not_end_a_host_with_the_signals_of_a_command():
    done = subprocess.run([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("alive\n", -signal.SIGPIPE)
