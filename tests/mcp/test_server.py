"""Tools of a real server, as a process and over HTTP, in both session classes, declared and as a catalog."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from gloveport import AgentSandbox, AsyncAgentSandbox, JournalError, McpServerError, SchemaTool, ToolCatalog
from gloveport.integrations.mcp import server as module
from gloveport.mcp import McpServer

from .conftest import office_process

KEY = b"0123456789abcdef"


def inline(tools=(), **options):
    return AgentSandbox(tools, isolation="inline", **options)


def test_as_declared_tools(office):
    with inline(office) as session:
        assert session.run("return await get_weather({city: 'Paris'})") == {"city": "Paris", "temp": 21.5}
        assert session.run("return (await list_invoices({customer: 'x', limit: 3})).filter(n => n > 1)") == [2, 3]
        stubs = session.typescript_stubs()
        assert "function list_invoices(args: {\n  customer: string;\n  limit?: number;\n}): Promise<number[]>;" in stubs
        assert "app_only" not in stubs


def test_as_a_catalog(office):
    with inline(tools_catalog=office) as session:
        assert session.run("return (await search_tools('bill for a customer')).map(t => t.name)[0]") == "list_invoices"
        assert session.run("return await tools.list_invoices({customer: 'x'})") == [1, 2]
        assert session.execute("await tools.get_weather({})").error_type == "ToolNotDiscoveredError"
        assert session.discovered_tools == ("list-invoices",)
        assert "app_only" not in session.catalog_names


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("table()", [{"id": 1}, {"id": 2}]),
        ("number()", "0042"),
        ("two_texts()", "a\nb"),
        ("nothing()", None),
        ("class_()", "class"),
        ("constructor_()", "constructor"),
        ("a_b()", "underscore"),
        ("echo({value: {d: new Date(0), b: new Uint8Array([1]), n: 12345678901234567890n}})",
         {"value": {"d": "1970-01-01T00:00:00Z", "b": "AQ==", "n": 12345678901234567890}}),
    ],
)  # fmt: skip
def test_values(office, call, value):
    with inline(office) as session:
        assert session.run(f"return await {call}") == value


def test_pictures_links_and_resources_are_data(office):
    with inline(office) as session:
        picture, link, resource, text = session.run("return await picture()")
    assert picture == {"type": "image", "mime_type": "image/png", "data": b"\x89PNG"}
    assert link == {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "mime_type": "text/plain"}
    assert resource == {"type": "resource", "uri": "memo://1", "mime_type": "text/plain", "text": "hello"}
    assert text == {"type": "text", "text": "caption"}


def test_errors_of_a_tool_are_for_the_model_and_others_are_not(office):
    def leak():
        raise ValueError("secret")

    with inline([*office, leak]) as session:
        told = session.run("try { await delete_user({user: 'bob'}) } catch (e) { return [e.name, e.message] }")
        assert told == ["McpToolError", "Error executing tool delete_user: no user called bob"]
        assert session.run("try { await leak() } catch (e) { return [e.name, e.message] }") == [
            "ValueError",
            "host function failed",
        ]


def test_annotations_are_there_for_a_policy(office):
    by_name = {tool.name: tool for tool in office}
    assert by_name["get_weather"].annotations == {"title": "Weather", "readOnlyHint": True}
    assert by_name["delete_user"].annotations == {"destructiveHint": True}
    assert ToolCatalog(office).specs["delete_user"].annotations == {"destructiveHint": True}


def test_steps_are_handed_out_and_can_be_made(office):
    with inline(tools_catalog=office) as session:
        step = session.start(
            "await search_tools('weather'); return await tools.get_weather({city: 'x'})", ask=["get_weather"]
        )
        assert session.call(step) == {"city": "x", "temp": 21.5}
        assert session.resume(step, "rain").value == "rain"


def test_a_stored_session_is_bound_to_the_server_and_not_to_its_list(office):
    with inline(tools_catalog=office) as session:
        session.run("await search_tools('weather')")
        blob = session.dump(KEY)
    fewer = McpServer(office_process(), name="office", exclude=["list-invoices"])
    other = McpServer(office_process(), name="other")
    with fewer, other:
        with AgentSandbox.load(blob, KEY, [], tools_catalog=fewer, isolation="inline") as copy:
            assert copy.run("return await tools.get_weather({city: 'x'})") == {"city": "x", "temp": 21.5}
        with pytest.raises(JournalError, match="another tool catalog"):
            AgentSandbox.load(blob, KEY, [], tools_catalog=other, isolation="inline")


def test_prefix_and_choice():
    with McpServer(
        office_process(), prefix="office_", include=["get_weather", "list-invoices", "pid"], exclude=["pid"]
    ) as server:
        assert [tool.name for tool in server] == ["office_get_weather", "office_list-invoices"]
        assert (server.name, len(server), server[0].name) == ("office", 2, "office_get_weather")
        with inline(server) as session:
            assert session.run("return await office_list_invoices({customer: 'x'})") == [1, 2]


def test_several_servers_in_one_catalog(office):
    with McpServer(office_process(), prefix="second_") as second:
        own = SchemaTool("own", "My own weather.", {"type": "object"}, lambda args: "own")
        with inline(tools_catalog=[office, second, own]) as session:
            names = session.run("return (await search_tools('weather')).map(t => t.name)")
            assert sorted(names) == ["get_weather", "own", "second_get_weather"]
            pids = session.run(
                "await describe_tool(['pid', 'second_pid']); return [await tools.pid(), await tools.second_pid()]"
            )
            assert pids[0] != pids[1]
        with pytest.raises(ValueError, match="has that name; give one of them a prefix"):
            inline(tools_catalog=[office, McpServerLike(office)])
        with pytest.raises(ValueError, match="have one name"):
            inline(tools_catalog=[office, office])


class McpServerLike:
    """Another source with the same tools."""

    def __init__(self, other):
        self.name, self.version, self.tools = "other", 1, other.tools


def test_changes_of_the_list_are_followed(monkeypatch):
    monkeypatch.setattr(module, "_REFRESH_SECONDS", 0.05)
    with McpServer(office_process()) as server, inline(tools_catalog=server, timeout=10) as session:
        session.run("await describe_tool(['hire', 'fire'])")
        assert session.run("return await search_tools('translations')") == []
        code = "await tools.hire({name: 'ada'}); return (await search_tools('translations')).map(t => t.name)"
        assert session.run(code) == ["ada"]
        assert session.run("return await tools.ada({hours: 3})") == "ada worked 3 h"
        assert "ada" in session.catalog_names
        blob = session.dump(KEY)
        session.run("await tools.fire({name: 'ada'})")
        gone = session.execute("return await tools.ada({hours: 3})")
        for _ in range(100):
            if gone.error_type == "ToolNotFoundError":
                break
            time.sleep(0.02)
            gone = session.execute("return await tools.ada({hours: 3})")
        assert "`ada` was removed from the catalog" in gone.error
        assert session.run("return await search_tools('translations')") == []
        with AgentSandbox.load(blob, KEY, [], tools_catalog=server, isolation="inline") as copy:
            assert copy.discovered_tools == ("hire", "fire", "ada")
            assert copy.execute("await tools.ada({})").error_type == "ToolNotFoundError"


def test_a_call_that_waits_when_its_tool_is_removed():
    class Source:
        name, version = "source", 1
        tools = [SchemaTool("a", "A", {}, lambda args: "a"), SchemaTool("b", "B", {}, lambda args: "b")]

    source = Source()
    with inline(tools_catalog=source) as session:
        step = session.start("await describe_tool('a'); return await tools.a({})", ask=["a"])
        source.tools, source.version = source.tools[1:], 2
        assert session.pending == step
        blob = session.dump(KEY)
        with AgentSandbox.load(blob, KEY, [], tools_catalog=source, isolation="inline") as copy:
            assert copy.pending == step
            assert copy.resume(copy.pending, "by hand").value == "by hand"
        with pytest.raises(Exception, match="has no tool 'a', or no longer"):
            session.call(step)
        assert session.resume(step, error=ValueError()).error_type == "ValueError"


def test_a_source_that_goes_wrong_keeps_its_earlier_tools(caplog):
    class Source:
        name, version = "source", 1
        tools = [SchemaTool("a", "A", {}, lambda args: "a")]

    source = Source()
    with inline({"declared": lambda: 1}, tools_catalog=source) as session:
        source.tools, source.version = [SchemaTool("x", "X", {}, None)], 2
        assert session.run("return (await search_tools('a thing')).length") == 0
        assert session.catalog_names == ("a",)
        assert "the earlier ones stay" in caplog.text
        source.tools, source.version = (
            [SchemaTool("declared", "D", {}, lambda args: "not you"), SchemaTool("y", "Y", {}, len)],
            3,
        )
        assert session.catalog_names == ("y",)
        assert session.execute("await describe_tool('declared')").error_type == "ToolNotFoundError"


async def test_in_asyncio(anyio_backend):
    async with McpServer(office_process()) as server:
        async with AsyncAgentSandbox(server, isolation="inline") as session:
            assert await session.run("return await get_weather({city: 'x'})") == {"city": "x", "temp": 21.5}
        async with AsyncAgentSandbox([], tools_catalog=server, isolation="inline") as session:
            assert (
                await session.run("await search_tools('weather'); return (await tools.get_weather({city: 'x'})).temp")
                == 21.5
            )
        with inline(server) as blocking:  # its tools run on another loop, and go over to this one
            assert await asyncio.to_thread(blocking.run, "return (await get_weather({city: 'y'})).city") == "y"


async def test_a_server_of_another_loop(office, anyio_backend):
    async with AsyncAgentSandbox(office, isolation="inline") as session:
        assert await session.run("return (await get_weather({city: 'x'})).city") == "x"


async def test_a_borrowed_session(anyio_backend):
    with open(os.devnull, "w") as nowhere:
        async with stdio_client(office_process(), errlog=nowhere) as streams, ClientSession(*streams) as client:
            await client.initialize()
            async with McpServer(client, name="mine") as server:
                assert server.name == "mine"
                async with AsyncAgentSandbox([], tools_catalog=server, isolation="inline") as session:
                    code = "await search_tools('weather'); return (await tools.get_weather({city: 'x'})).temp"
                    assert await session.run(code) == 21.5
                    await session.run("await describe_tool('hire'); await tools.hire({name: 'eve'})")
                    await server.refresh()
                    assert await session.run("return (await search_tools('translations')).length") == 1
            assert (await client.list_tools()).tools  # it is not ours to close


def test_over_http(http_office):
    with McpServer(http_office.url) as server, inline(tools_catalog=server) as session:
        code = "await search_tools('weather'); return (await tools.get_weather({city: 'x'})).temp"
        assert session.run(code) == 21.5
        assert session.run("await describe_tool('hire'); await tools.hire({name: 'bob'}); return 1") == 1


async def test_over_http_in_asyncio(http_office, anyio_backend):
    async with McpServer(http_office.url, headers={"x-key": "k"}) as server:
        async with AsyncAgentSandbox(server, isolation="inline") as session:
            code = "return (await Promise.all([1, 2, 3].map(n => list_invoices({customer: 'x', limit: n})))).map(l => l.length)"
            assert await session.run(code) == [1, 2, 3]


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("ftp://x", {}, "not an http or https URL"),
        ("npx some-server", {}, "not an http or https URL"),
        (7, {}, "is given as"),
        ("http://x", {"timeout": 0}, "`timeout` must be"),
        ("http://x", {"connect_timeout": float("nan")}, "`connect_timeout` must be"),
        ("http://x", {"include": "abc"}, "`include` takes"),
        (StdioServerParameters(command="x"), {"headers": {"a": "b"}}, "`headers` are for a URL"),
    ],
)
def test_arguments_that_make_no_sense(source, options, error):
    with pytest.raises((TypeError, ValueError), match=error):
        McpServer(source, **options)


def test_it_has_to_be_connected_first():
    server = McpServer(office_process())
    for use in (list, len, lambda s: inline(s), lambda s: inline(tools_catalog=s)):
        with pytest.raises(McpServerError, match="not connected"):
            use(server)
