"""The language server: hostile sources, a process that dies, its jail, and what it may send."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gloveport.engines.checker import Checker, Question
from gloveport.engines.checker import server as servers
from gloveport.engines.checker.lsp import MAX_MESSAGE, ServerDied, ServerTimeout, Wire
from gloveport.engines.checker.server import Server
from gloveport.engines.defaults import toolbox
from gloveport.engines.toolbox.connection import Child
from gloveport.errors import TypeCheckUnavailableError

LOOPS = "type Loop<N, A extends any[] = []> = A['length'] extends 900 ? N : Loop<N, [...A, 1]>;\n"
SLOW = LOOPS + "".join(f"let a{i}: Loop<{i}> = 'x';\n" for i in range(1000))
MISTAKE = Question("const a: string = 5")


@pytest.fixture
def own(compiler):
    with Checker(toolbox=toolbox("require")) as made:
        yield made


def codes(found):
    return [problem.code for problem in found]


# ── hostile sources ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_types_that_take_too_long_end_the_server_and_the_next_check_has_another(own):
    assert codes(own.check(MISTAKE)) == ["TS2322"]
    first = own.pid
    (problem,) = own.check(Question(SLOW), timeout=0.5)
    assert problem.code == "Unchecked"
    assert "took longer than 0.5 s" in problem.message
    assert own.pid is None
    assert codes(own.check(MISTAKE)) == ["TS2322"]
    assert own.pid != first


def test_types_that_need_too_much_memory(own):
    names = ["'aaaaaaaaaaaaaaaa'", *(f"A{i}" for i in range(1, 5))]
    grow = "".join(f"type A{i} = {'D<' * 8}{before}{'>' * 8};\n" for i, before in enumerate(names[:4], 1))
    (problem,) = own.check(Question("type D<T extends string> = `${T}${T}`;\n" + grow + "let a: A4 = 5"), timeout=60)
    assert (problem.code, "crash" in problem.message) == ("Unchecked", True)
    assert codes(own.check(MISTAKE)) == ["TS2322"]


@pytest.mark.parametrize(
    "code",
    [
        "type R<T> = T extends any ? R<[T]> : never; let x: R<1>",
        "type D<T extends any[]> = [...T, ...T]; let a: " + "D<" * 30 + "[1]" + ">" * 30,
    ],
    ids=["without an end", "doubling"],
)
def test_types_that_the_compiler_gives_up_at(own, code):
    assert own.check(Question(code))
    assert own.pid is not None


@pytest.mark.parametrize(
    "code",
    ["x.y" * 10, "let a: " + "[" * 3000 + "1" + "]" * 3000, "return " + "(" * 50_000 + ")" * 50_000, "'" * 200_001],
    ids=["nonsense", "deep type", "deep expression", "quotes"],
)
def test_huge_and_deep_sources_do_not_stop_the_next_check(own, code):
    own.check(Question(code))
    assert codes(own.check(MISTAKE)) == ["TS2322"]


@pytest.mark.parametrize(
    "code",
    [
        "/// <reference path='{path}' />\nreturn secret",
        "/// <reference types='{path}' />\nreturn secret",
        "const s: typeof import('{path}').secret = 1; return s.length",
        "// @ts-nocheck\nreturn secret",
    ],
)
def test_no_file_is_read_for_a_source(own, code, tmp_path):
    file = tmp_path / "secret.ts"
    file.write_text("export const secret = 'text'; declare global { var secret: string }")
    found = own.check(Question(code.format(path=file)))
    assert all("string" not in problem.message for problem in found)
    assert found or "import" in code


def test_code_cannot_leave_its_function(own):
    assert own.check(Question("}} async function other() {{"))[0].code == "SyntaxError"
    assert own.check(Question("return 1 }\nasync function __run9__() {"))[0].code == "SyntaxError"


# ── a server that dies ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_was_killed_is_replaced(own):
    own.check(MISTAKE)
    pid = own.pid
    os.kill(pid, signal.SIGKILL) if os.getuid() == 0 else own._resident.process.wire.child.kill()
    assert codes(own.check(MISTAKE)) == ["TS2322"]
    assert own.pid not in (None, pid)


def test_killed_in_the_middle_of_a_check(own):
    own.check(MISTAKE)
    kill = own._resident.process.wire.child.kill
    found = []
    thread = threading.Thread(target=lambda: found.extend(own.check(Question(SLOW), timeout=1.0)))
    thread.start()
    time.sleep(0.3)
    kill()
    thread.join()
    assert codes(found) == ["Unchecked"]
    assert codes(own.check(MISTAKE)) == ["TS2322"]


def test_another_source_that_is_stuck_does_not_hold_up_a_check(own):
    own.check(MISTAKE)
    slow = []
    thread = threading.Thread(target=lambda: slow.extend(own.check(Question(SLOW), timeout=3.0)))
    thread.start()
    time.sleep(0.1)
    assert codes(own.check(MISTAKE)) == ["TS2322"]
    assert not slow, "the other check was over, and showed nothing"
    thread.join()
    assert codes(slow) == ["Unchecked"]


def test_a_closed_checker_says_so(own):
    own.check(MISTAKE)
    own.close()
    with pytest.raises(TypeCheckUnavailableError, match="closed"):
        own.check(MISTAKE)


def test_a_fork_has_its_own(own):
    own.check(MISTAKE)
    pid = own.pid
    child = os.fork()
    if child == 0:
        try:
            fine = own.pid is None and codes(own.check(MISTAKE)) == ["TS2322"] and own.pid != pid
            own.close()
        except BaseException:
            fine = False
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert codes(own.check(MISTAKE)) == ["TS2322"]
    assert own.pid == pid


# ── the jail ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sandbox", ["require", "off"])
def test_it_reads_no_file_of_the_host(compiler, sandbox, tmp_path):
    """The server itself, asked for a file: what whoever has taken it over could do at least."""
    (tmp_path / "secret.ts").write_text("const secret: string = 5;")
    (tmp_path / "tsconfig.json").write_text("{}")
    tmp_path.chmod(0o755)
    server = Server(compiler, sandbox)
    try:
        deadline = time.monotonic() + 30
        uri = (tmp_path / "other.ts").as_uri()
        text = '/// <reference path="secret.ts" />\nconst other: number = secret;'
        document = {"uri": uri, "languageId": "typescript", "version": 1, "text": text}
        server.wire.notify("textDocument/didOpen", {"textDocument": document}, deadline)
        report = server.wire.request("textDocument/diagnostic", {"textDocument": {"uri": uri}}, deadline)
        assert (b"'string' is not assignable" in bytes(report)) is (sandbox == "off")
    finally:
        server.close()


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can look")
@pytest.mark.parametrize("sandbox", ["require", "off"])
def test_it_has_no_network_no_rights_and_an_empty_root(compiler, sandbox):
    server = Server(compiler, sandbox)
    try:
        proc = Path(f"/proc/{server.wire.child.pid}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
        jailed = (
            os.readlink(proc / "ns/net") != os.readlink("/proc/self/ns/net"),
            status["Uid"].split()[0] != "0",
            status["Seccomp"] == "2",
            int(status["CapEff"], 16) == 0,
            not (proc / "root/etc").exists(),
        )
        assert jailed == (sandbox == "require",) * 5
    finally:
        server.close()


def test_it_dies_with_its_connection(compiler):
    server = Server(compiler, "require")
    pid = server.wire.child.pid
    server.close()
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]


HOST = """
import sys, time
from gloveport.engines.checker import Checker, Question
from gloveport.engines.defaults import toolbox
checker = Checker(toolbox=toolbox("require"))
checker.check(Question("return 1"))
print(checker.pid, flush=True)
time.sleep(60)
"""


def test_it_dies_with_the_host(compiler):
    host = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True)
    pid = int(host.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    host.kill()
    host.wait()
    host.stdout.close()
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.01)
    pytest.fail("the server outlived its host")


def test_its_memory_is_limited(compiler):
    server = Server(compiler, "require")
    try:
        limits = Path(f"/proc/{server.wire.child.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max data size")]
        assert line.split()[3] == str(servers.MEMORY_BYTES)
    except PermissionError:
        pytest.skip("only root can look")
    finally:
        server.close()


# ── what it may send ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fake():
    """A wire whose other end the test holds."""
    ours, theirs = socket.socketpair()
    fd = ours.detach()
    yield Wire(Child(0, fd, fd, lambda: None, lambda: None, lambda: None)), theirs
    os.close(fd)
    theirs.close()


def ask(wire, seconds=5.0):
    return wire.request("x", {}, time.monotonic() + seconds)


def framed(body):
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def test_an_answer_in_pieces_after_other_messages(fake):
    wire, theirs = fake
    theirs.sendall(framed(b'{"method":"window/logMessage"}') + framed(b'{"id":"a","method":"register"}'))
    theirs.sendall(framed(b'{"id":1,"result":[7]}'))
    assert bytes(ask(wire)) == b"[7]"
    assert b'"id":"a","result":null' in theirs.recv(10_000)


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: %d\r\n\r\n" % (MAX_MESSAGE + 1),
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Type: x\r\n\r\n",
        b"x" * 10_000,
        framed(b"{"),
        framed(b"[" * 100_000),
        framed(b'{"id":{}}'),
        framed(b'{"id":1,"error":{"message":"no"}}'),
    ],
    ids=["large", "huge", "negative", "no length", "no end", "half", "deep", "id", "error"],
)
def test_what_no_server_sends_ends_it(fake, sent):
    wire, theirs = fake
    theirs.sendall(sent)
    with pytest.raises(ServerDied):
        ask(wire)


def test_silence_and_the_end(fake):
    wire, theirs = fake
    with pytest.raises(ServerTimeout):
        ask(wire, 0.05)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ServerDied):
        ask(wire)
