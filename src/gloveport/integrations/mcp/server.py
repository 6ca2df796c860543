"""`McpServer`: an MCP server's tools as those of a session."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, cast, overload

from mcp import ClientSession, StdioServerParameters, types

from ...errors import McpServerError, ToolNotFoundError
from ...host.portal import portal
from ...types import SchemaTool, json_data
from .link import BorrowedLink, Link, LinkOver, OwnLink, Transport
from .listing import schema_tools, visible
from .results import adapt, unwrapped_schema

__all__ = ("McpServer",)

_logger = logging.getLogger("gloveport")

_MAX_TOOLS: Final = 10_000
_MAX_PAGES: Final = 1000
_REFRESH_SECONDS: Final = 1.0
"""Between two listings that the server asked for by `tools/list_changed`."""
_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 30.0


class McpServer(Sequence[SchemaTool]):
    """A connection to an MCP server, used as `async with McpServer(…) as server` or, without asyncio, as `with McpServer(…) as server`.

    `AgentSandbox(server)` declares its tools as they are now; `tools_catalog=server` follows them as they change. Both session classes
    take it, whichever way it was entered; calls go over to the event loop that it was entered on, which has to be running.

    Args:
        source: `StdioServerParameters` for a server to start as a process, a URL (streamable HTTP), a function that opens any other
            transport of the mcp library, or a `ClientSession` that the application has initialised and will end itself.
        name: what stored sessions know it by, and texts call it. Default: the prefix, else what the server calls itself.
        prefix: put before every tool's name, as `prefix="github_"`.
        include: names, as the server has them, of the only tools to take. Default: all.
        exclude: names of tools not to take.
        headers: for a URL.
        timeout: seconds for a call. Default 60.
        connect_timeout: seconds for a connection, with the list of tools. Default 30.

    Raises `McpServerError` when it cannot connect; `TypeError` and `ValueError` for arguments that make no sense.

    When the connection ends, calls under way fail with `McpServerError` and are not repeated, as nobody knows whether they were made. The
    next call connects again; after a failure the next attempt is made after 1 s at the earliest, then 2 s, up to 30 s. A borrowed session
    is not connected again.
    """

    def __init__(
        self,
        source: StdioServerParameters | str | ClientSession | Transport,
        *,
        name: str | None = None,
        prefix: str = "",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        connect_timeout: float = 30.0,
    ) -> None:
        self._transport = _transport(source, headers)
        self._borrowed = source if isinstance(source, ClientSession) else None
        self._prefix = prefix
        self._name = name or prefix.rstrip("_.-")
        self._include = None if include is None else _names("include", include)
        self._exclude = _names("exclude", exclude)
        self._timeout = _seconds("timeout", timeout)
        self._connect_timeout = _seconds("connect_timeout", connect_timeout)
        self._link: Link | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._connecting = asyncio.Lock()
        self._not_before = self._delay = 0.0
        self._listed: list[types.Tool] = []
        self._tools: tuple[SchemaTool, ...] = ()
        self._version = 0
        self._heard_of_changes = 0
        self._listing: asyncio.Task[None] | None = None
        self._refresher: asyncio.Task[None] | None = None

    # ── its tools ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def name(self) -> str:
        """What stored sessions know it by."""
        return self._name

    @property
    def version(self) -> int:
        """Another number whenever the tools have changed."""
        return self._version

    @property
    def tools(self) -> Sequence[SchemaTool]:
        """The tools as they are now."""
        if self._loop is None:
            raise McpServerError("the MCP server is not connected: use `async with McpServer(…) as server`, or `with`")
        return self._tools

    @overload
    def __getitem__(self, index: int) -> SchemaTool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SchemaTool]: ...
    def __getitem__(self, index: int | slice) -> SchemaTool | Sequence[SchemaTool]:
        return self.tools[index]

    def __len__(self) -> int:
        return len(self.tools)

    def __repr__(self) -> str:
        state = "not connected" if self._loop is None else f"{len(self._tools)} tools"
        return f"McpServer({self._name!r}, {state})"

    # ── its connection ───────────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise McpServerError("the MCP server is connected already")
        self._loop, self._pid = asyncio.get_running_loop(), os.getpid()
        try:
            await self._connect()
        except BaseException:
            self._loop = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        link, self._link, self._loop = self._link, None, None
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.wait({self._refresher})
        if link is not None:
            await link.close()

    def __enter__(self) -> Self:
        return portal().run(self.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pid == os.getpid():  # the connection of a forked copy is its parent's
            portal().run(lambda: self.__aexit__(kind, error, traceback))

    async def refresh(self) -> None:
        """Ask for the list of tools again. Only for a borrowed session; the others are told by the server."""
        await self._here(self._list_again)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._connect_now()
        except McpServerError:
            raise
        except Exception as error:
            why = f"no answer within {self._connect_timeout:g} s" if isinstance(error, TimeoutError) else f"{error}"
            raise McpServerError(
                f"cannot connect to the MCP server{f' {self._name!r}' if self._name else ''}: {why or type(error).__name__}"
            ) from error

    async def _connect_now(self) -> None:
        if self._borrowed is not None:
            link: Link = BorrowedLink(self._borrowed)
        else:
            assert self._transport is not None
            link = own = OwnLink(self._transport, self._heard)
            await own.open(self._connect_timeout)
        try:
            self._name = self._name or link.server_name
            self._take(await self._list(link))
        except BaseException:
            await link.close()
            raise
        self._link = link

    async def _alive(self) -> Link:
        """A connection that works, made again if need be."""
        if self._link is not None and self._link.alive:
            return self._link
        async with self._connecting:
            if self._loop is None:
                raise McpServerError(f"the MCP server {self._name!r} was closed")
            if self._link is not None and self._link.alive:
                return self._link
            if self._borrowed is not None:
                raise McpServerError(f"the connection to the MCP server {self._name!r} is over")
            wait = self._not_before - time.monotonic()
            if wait > 0:
                raise McpServerError(f"the MCP server {self._name!r} is not there; try again in {math.ceil(wait)} s")
            try:
                await self._replace_link()
            except McpServerError as error:
                self._delay = min(_LAST_DELAY, self._delay * 2 or _FIRST_DELAY)
                self._not_before = time.monotonic() + self._delay
                _logger.warning("%s", error)
                raise McpServerError(f"the MCP server {self._name!r} is not there") from error
            self._delay = 0.0
            assert self._link is not None
            return self._link

    async def _replace_link(self) -> None:
        old, self._link = self._link, None
        if old is not None:
            await old.close()
        await self._connect()

    # ── its list ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _list(self, link: Link) -> list[types.Tool]:
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ClientRequest(types.ListToolsRequest(method="tools/list", params=params))
            try:
                page = await link.ask(request, types.ListToolsResult, self._connect_timeout)
            except LinkOver as over:
                raise McpServerError(f"the MCP server {self._name!r} went away while it listed its tools") from over
            found += page.tools
            if len(found) > _MAX_TOOLS:
                break
            cursor = page.nextCursor
            if not cursor:
                return found
        raise McpServerError(f"the MCP server {self._name!r} lists more than {_MAX_TOOLS:,} tools, or has no end")

    def _take(self, tools: list[types.Tool]) -> None:
        chosen = [
            tool
            for tool in visible(tools)
            if (self._include is None or tool.name in self._include) and tool.name not in self._exclude
        ]
        if self._version and chosen == self._listed:
            return
        self._listed = chosen
        self._tools = tuple(schema_tools(chosen, self._prefix, self._call))
        self._version += 1

    async def _heard(self, message: Any) -> None:
        """What the server says unasked. Called by the loop that reads, so nothing is asked from here."""
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self._heard_of_changes += 1
            if self._refresher is None or self._refresher.done():
                self._refresher = asyncio.create_task(self._refresh(), name="gloveport-mcp-list")

    async def _refresh(self) -> None:
        """List again whenever the server says so, but not all the time."""
        seen = 0
        while seen != self._heard_of_changes:
            seen = self._heard_of_changes
            self._listing = asyncio.create_task(self._list_again())
            try:
                await self._listing
            except Exception as error:
                _logger.warning("the tools of the MCP server %r could not be listed again: %s", self._name, error)
            self._listing = None
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _listed_again(self) -> None:
        """Wait for a listing that is under way, but not for long."""
        if self._refresher is not None and not self._refresher.done():
            await asyncio.sleep(0)  # it may just have been started
        listing = self._listing
        if listing is not None:
            await asyncio.wait({listing}, timeout=_REFRESH_SECONDS)

    async def _list_again(self) -> None:
        self._take(await self._list(await self._alive()))

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _call(self, tool: types.Tool, arguments: Mapping[str, Any]) -> Any:
        return await self._here(lambda: self._call_here(tool, arguments))

    async def _here(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Await a function on the loop of the connection."""
        loop = self._loop
        if loop is None:
            raise McpServerError(f"the MCP server {self._name!r} was closed")
        if self._pid != os.getpid():
            raise McpServerError(
                f"the MCP server {self._name!r} was connected by the process that this one was forked from"
            )
        if loop is asyncio.get_running_loop():
            return await function()
        if not loop.is_running():
            raise McpServerError(f"the event loop that the MCP server {self._name!r} was connected on does not run")

        async def there() -> Any:
            return await function()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), loop))

    async def _call_here(self, tool: types.Tool, arguments: Mapping[str, Any]) -> Any:
        params = types.CallToolRequestParams(name=tool.name, arguments=json_data(arguments))
        request = types.ClientRequest(types.CallToolRequest(method="tools/call", params=params))
        for last in (False, True):
            link = await self._alive()
            if all(known.name != tool.name for known in self._listed):
                gone = ToolNotFoundError(f"the MCP server {self._name!r} no longer has this tool")
                gone.shown = True
                raise gone
            try:
                result = await link.ask(request, types.CallToolResult, self._timeout)
            except LinkOver as over:
                if over.made:
                    raise McpServerError(
                        f"the MCP server {self._name!r} went away during the call; whether the call was carried out is not known"
                    ) from over
                if last:
                    raise McpServerError(
                        f"the MCP server {self._name!r} went away again; the call was not carried out"
                    ) from over
                continue
            await self._listed_again()  # if this call changed the tools, then for the code that made it, too
            return adapt(result, unwrap=unwrapped_schema(tool.outputSchema) is not None)
        raise AssertionError  # pragma: no cover


def _transport(source: Any, headers: Mapping[str, str] | None) -> Transport | None:
    if headers is not None and not isinstance(source, str):
        raise TypeError("`headers` are for a URL")
    if isinstance(source, ClientSession):
        return None
    if isinstance(source, StdioServerParameters):
        return lambda: _process(source)
    if isinstance(source, str):
        if not source.startswith(("http://", "https://")):
            raise ValueError(f"{source!r} is not an http or https URL; to start a program, give StdioServerParameters")
        return lambda: _http(source, dict(headers or {}))
    if callable(source):
        return cast("Transport", source)
    raise TypeError(
        f"an MCP server is given as StdioServerParameters, a URL, a ClientSession or a function that opens a transport, not {source!r}"
    )


def _process(parameters: StdioServerParameters) -> AbstractAsyncContextManager[Any]:
    from mcp.client.stdio import stdio_client

    return stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)


@asynccontextmanager
async def _http(url: str, headers: dict[str, str]) -> AsyncGenerator[Any]:
    import httpx
    from mcp.client.streamable_http import streamable_http_client

    # The timeouts are those of the library's own client; a call has ours. Redirects could carry the headers to another host.
    timeout = httpx.Timeout(30.0, read=300.0)
    async with (
        httpx.AsyncClient(headers=headers, timeout=timeout, follow_redirects=False) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _names(option: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"`{option}` takes the names of tools, not one string")
    return frozenset(names)


def _seconds(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"`{option}` must be a positive, finite number of seconds, not {value!r}")
    return float(value)
