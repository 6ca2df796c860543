"""A real MCP server for the tests, made with the official library: `office_server.py stdio` or `office_server.py http PORT`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import anyio
from mcp import types
from mcp.server.fastmcp import Context, FastMCP, Image
from pydantic import BaseModel

server = FastMCP("office", host="127.0.0.1", port=int(sys.argv[2]) if len(sys.argv) > 2 else 8000, log_level="CRITICAL")
late_answers: list[str] = []


class Weather(BaseModel):
    city: str
    temp: float


@server.tool(annotations=types.ToolAnnotations(title="Weather", readOnlyHint=True))
def get_weather(city: str) -> Weather:
    """Current weather for a city."""
    return Weather(city=city, temp=21.5)


@server.tool(name="list-invoices")
def list_invoices(customer: str, limit: int = 2) -> list[int]:
    """All invoices of a customer."""
    return list(range(1, limit + 1))


@server.tool(annotations=types.ToolAnnotations(destructiveHint=True), structured_output=False)
def delete_user(user: str) -> str:
    """Remove an account for good."""
    raise ValueError(f"no user called {user}")


@server.tool(structured_output=False)
def table() -> str:
    """Rows as text."""
    return '[{"id": 1}, {"id": 2}]'


@server.tool(structured_output=False)
def number() -> str:
    """Digits as text."""
    return "0042"


@server.tool(structured_output=False)
def two_texts() -> list[types.TextContent]:
    """Two texts, and one that is for people."""
    people = types.Annotations(audience=["user"])
    return [
        types.TextContent(type="text", text="a"),
        types.TextContent(type="text", text="for your eyes", annotations=people),
        types.TextContent(type="text", text="b"),
    ]


@server.tool(structured_output=False)
def nothing() -> None:
    """Nothing."""


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """A picture, a link and a resource."""
    return [
        Image(data=b"\x89PNG", format="png"),
        types.ResourceLink(type="resource_link", uri="file:///a.txt", name="a", mimeType="text/plain"),
        types.EmbeddedResource(
            type="resource", resource=types.TextResourceContents(uri="memo://1", text="hello", mimeType="text/plain")
        ),
        "caption",
    ]


@server.tool(structured_output=False)
def echo(value: Any = None) -> types.CallToolResult:
    """What was given, as it came."""
    return types.CallToolResult(content=[], structuredContent={"value": value})


@server.tool()
async def slow(seconds: float) -> str:
    """Answers late."""
    try:
        await anyio.sleep(seconds)
    except BaseException:
        late_answers.append("cancelled")
        raise
    return "late"


@server.tool()
def cancelled() -> list[str]:
    """What became of slow calls."""
    return late_answers


@server.tool()
def pid() -> int:
    """The process id."""
    return os.getpid()


@server.tool()
def die(after: float = 0.0) -> str:
    """Ends the server."""
    time.sleep(after)
    os._exit(3)


@server.tool()
async def hire(name: str, context: Context) -> str:
    """Adds a tool."""

    def work(hours: int) -> str:
        return f"{name} worked {hours} h"

    server.add_tool(work, name=name, description=f"Have {name} do translations.")
    await context.session.send_tool_list_changed()
    return "hired"


@server.tool()
async def fire(name: str, context: Context) -> str:
    """Removes a tool."""
    del server._tool_manager._tools[name]
    await context.session.send_tool_list_changed()
    return "fired"


@server.tool(name="class")
def class_() -> str:
    """A reserved word."""
    return "class"


@server.tool(name="constructor")
def constructor() -> str:
    """A name that no tool can have."""
    return "constructor"


@server.tool(name="a_b")
def a_b() -> str:
    return "underscore"


@server.tool(name="a-b")
def a_minus_b() -> str:
    return "minus"


@server.tool(name="app_only")
def app_only() -> str:
    return "for applications"


server._tool_manager._tools["app_only"].meta = {"ui": {"visibility": ["app"]}}

if __name__ == "__main__":
    server.run("stdio" if sys.argv[1] == "stdio" else "streamable-http")
