"""Servers that die, hang, are late or never were there."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest
from mcp import StdioServerParameters, types

from gloveport import AgentSandbox, AsyncAgentSandbox, McpServerError
from gloveport.integrations.mcp import server as module
from gloveport.integrations.mcp.link import LinkOver
from gloveport.mcp import McpServer

from .conftest import HttpOffice, office_process


def inline(tools=(), **options):
    return AgentSandbox(tools, isolation="inline", **options)


def test_a_server_that_dies_in_a_call_and_is_there_again():
    with McpServer(office_process()) as server, inline(server) as session:
        first = session.run("return await pid()")
        died = session.execute("return await die()")
        assert died.error_type == "McpServerError"
        assert "went away during the call; whether the call was carried out is not known" in died.error
        second = session.run("return await pid()")
        assert first != second
        assert session.lost_runs == 0


def test_calls_under_way_fail_and_are_not_repeated():
    with McpServer(office_process()) as server, inline(server) as session:
        code = "return (await Promise.allSettled([slow({seconds: 60}), die({after: 0.2})])).map(r => r.reason?.name)"
        assert session.run(code) == ["McpServerError", "McpServerError"]


def test_a_server_that_dies_between_calls():
    with McpServer(office_process()) as server, inline(server) as session:
        first = session.run("return await pid()")
        link = server._link
        os.kill(first, 9)
        until = time.monotonic() + 30
        while link.alive:  # seen without anyone asking
            assert time.monotonic() < until
            time.sleep(0.01)
        assert session.run("return await pid()") != first


def test_attempts_to_connect_are_spaced(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_DELAY", 30.0)
    there = tmp_path / "there"
    there.touch()
    script = f"import os, sys; os.path.exists({str(there)!r}) or sys.exit(1); os.execv(sys.executable, sys.argv[1:])"
    office = office_process()
    parameters = StdioServerParameters(
        command=sys.executable, args=["-c", script, sys.executable, *office.args], env=office.env
    )
    with McpServer(parameters) as server, inline(server) as session:
        there.unlink()
        session.execute("await die()")
        assert session.execute("await pid()").error == "McpServerError: the MCP server 'office' is not there"
        told = session.execute("await pid()").error
        assert "is not there; try again in" in told
        there.touch()
        assert session.execute("await pid()").error_type == "McpServerError"
        server._not_before = 0.0
        assert session.run("return typeof await pid()") == "number"


def test_a_late_call_is_an_error_and_the_server_is_told():
    with McpServer(office_process(), timeout=0.3) as server, inline(server) as session:
        late = session.execute("await slow({seconds: 60})")
        assert late.error == "ToolTimeoutError: the MCP server did not answer within 0.3 s"
        for _ in range(100):
            if session.run("return await cancelled()") == ["cancelled"]:
                break
            time.sleep(0.02)
        else:
            pytest.fail("the server was not told")
    with McpServer(office_process(), timeout=30) as server, inline(server) as session:
        assert session.run("return await slow({seconds: 0.3})") == "late"


async def test_a_cancelled_run_cancels_its_calls(anyio_backend):
    async with McpServer(office_process()) as server, AsyncAgentSandbox(server, isolation="inline") as session:
        run = asyncio.create_task(session.run("await slow({seconds: 60})"))
        await asyncio.sleep(0.2)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        for _ in range(100):
            if await session.run("return await cancelled()") == ["cancelled"]:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("the server was not told")


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; sys.exit(1)", "Connection closed"),
        ("print('hello'); import sys; sys.stdin.read()", "no answer within 0.5 s"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_program_that_is_no_server(program, told, caplog):
    server = McpServer(StdioServerParameters(command=sys.executable, args=["-c", program]), connect_timeout=0.5)
    if "exit" in program:
        server = McpServer(StdioServerParameters(command=sys.executable, args=["-c", program]))
    with pytest.raises(McpServerError, match=f"cannot connect to the MCP server: .*{told}"), server:
        pass


def test_a_program_that_is_not_there_and_a_port_where_nobody_listens():
    with pytest.raises(McpServerError, match="cannot connect"), McpServer(StdioServerParameters(command="/no/such")):
        pass
    with pytest.raises(McpServerError, match="cannot connect"), McpServer("http://127.0.0.1:9/mcp", connect_timeout=5):
        pass


def test_an_http_server_that_goes_and_comes_again():
    office = HttpOffice()
    try:
        with McpServer(office.url, timeout=10) as server, inline(server) as session:
            first = session.run("return await pid()")
            office.stop()
            assert session.execute("return await pid()").error_type == "McpServerError"
            office.start()
            server._not_before = 0.0
            assert session.run("return await pid()") not in (first, None)
            office.stop()
            office.start()  # at the next call a connection that was open may turn out to be dead, or the session to be unknown
            seen = [session.execute("return typeof await pid()") for _ in range(3)]
            assert seen[-1].result == "number"
            assert {result.error_type for result in seen if not result.ok} <= {"McpServerError"}
    finally:
        office.stop()


class FakeLink:
    """A connection that ends at the first call, and is there again at the next."""

    alive, server_name = True, "fake"

    def __init__(self, *ends):
        self.ends, self.asked = list(ends), 0

    async def ask(self, request, kind, timeout):
        self.asked += 1
        if self.ends:
            raise LinkOver(made=self.ends.pop(0))
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])


@pytest.mark.parametrize(
    ("ends", "asked", "error"),
    [
        ((), 1, None),
        ((False,), 2, None),
        ((True,), 1, "is not known"),
        ((False, False), 2, "was not carried out"),
        ((False, True), 2, "is not known"),
    ],
)
async def test_a_call_is_made_again_only_if_it_certainly_was_not_made(ends, asked, error, anyio_backend):
    server, link = McpServer("http://localhost/mcp", name="fake"), FakeLink(*ends)
    tool = types.Tool(name="t", inputSchema={})
    server._loop, server._pid, server._link = asyncio.get_running_loop(), os.getpid(), link
    server._take([tool])
    if error is None:
        assert await server[0].callable({}) == "done"
    else:
        with pytest.raises(McpServerError, match=error):
            await server[0].callable({})
    assert link.asked == asked


def test_after_the_end():
    with McpServer(office_process()) as server:
        tools = list(server)
    with inline(tools) as session:
        assert "was closed" in session.execute("await pid()").error


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_in_a_forked_child():
    with McpServer(office_process()) as server, inline(server) as session:
        child = os.fork()
        if child == 0:
            with inline(list(server)) as other:
                told = other.execute("await pid()").error or ""
            os._exit(0 if "forked from" in told else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert session.run("return typeof await pid()") == "number"


def test_nothing_is_left_behind():
    def children():
        return {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == os.getpid()}

    with McpServer(office_process()):
        pass
    before, files = children(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with McpServer(office_process()) as server, inline(server) as session:
            assert children() - before
            session.execute("await die()")
            session.run("await pid()")
    assert children() - before == set()
    assert len(os.listdir("/proc/self/fd")) <= files + 1


def _parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
