"""One connection to an MCP server, from its handshake to its end, on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import pydantic
from mcp import ClientSession, McpError, types
from mcp.client.session import MessageHandlerFnT

from ..._version import __version__
from ...errors import McpServerError, McpToolError, ToolTimeoutError

__all__ = ("BorrowedLink", "Link", "LinkOver", "OwnLink", "Transport")

_CLOSE_SECONDS: Final = 10.0
"""What a transport may take to end: the one for processes waits 2 s, then sends SIGTERM, and after 2 s more SIGKILL."""
_NOTIFY_SECONDS: Final = 1.0
_HTTP_TIMEOUT: Final = 408
_SESSION_TERMINATED: Final = 32600
"""What mcp 1.24 to 1.30 say (with this sign) when a server answers 404 to a session's id: it has not looked at the request."""

R = TypeVar("R", bound=types.Result)
Transport = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens a transport of the mcp library; what it yields begins with a stream to read and one to write."""


class LinkOver(Exception):
    """The connection is over. `made`: the request may have been carried out."""

    def __init__(self, *, made: bool) -> None:
        super().__init__()
        self.made = made


class Link(Protocol):
    """What requests go through."""

    @property
    def alive(self) -> bool: ...

    @property
    def server_name(self) -> str: ...

    async def ask(self, request: types.ClientRequest, kind: type[R], timeout: float) -> R:
        """Send a request. Raises `LinkOver`, `ToolTimeoutError`, `McpToolError` for a refusal, `McpServerError` for nonsense."""
        ...

    async def close(self) -> None: ...


class BorrowedLink:
    """A session that the application made, and ends."""

    def __init__(self, session: ClientSession) -> None:
        self._session: ClientSession | None = session
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._notices: set[asyncio.Task[None]] = set()

    @property
    def alive(self) -> bool:
        return not self._over.done()

    @property
    def server_name(self) -> str:
        return "mcp"

    async def ask(self, request: types.ClientRequest, kind: type[R], timeout: float) -> R:
        session = self._session
        if session is None or self._over.done():
            raise LinkOver(made=False)
        number: list[int | None] = []

        async def send() -> R:
            number.append(getattr(session, "_request_id", None))  # for the notice; there is no public way to know it
            return await session.send_request(request, kind)

        # Not `call_tool`: it validates with patterns of the server's, which can take for ever, and lists the tools in between.
        sent = asyncio.ensure_future(send())
        try:
            await asyncio.wait({sent, self._over}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            given_up = not sent.done()
            if given_up:
                sent.cancel()
                if not self._over.done():
                    self._notice(session, number)
        if given_up:
            if self._over.done():
                raise LinkOver(made=True)
            raise _late(f"the MCP server did not answer within {timeout:g} s")
        return self._answer(sent)

    def _answer(self, sent: asyncio.Future[R]) -> R:
        try:
            return sent.result()
        except McpError as error:
            code = error.error.code
            if abs(code) == _SESSION_TERMINATED and "terminated" in error.error.message:
                self.lost()
                raise LinkOver(made=False) from error
            if code == types.CONNECTION_CLOSED:
                self.lost()
                raise LinkOver(made=True) from error
            if code == _HTTP_TIMEOUT:
                raise _late("the MCP server did not answer in time") from error
            raise McpToolError(error.error.message) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            self.lost()
            raise LinkOver(made=True) from error
        except pydantic.ValidationError as error:
            raise McpServerError("the MCP server answered with something that is not of the protocol") from error

    def lost(self) -> None:
        """Nothing comes through any more."""
        if not self._over.done():
            self._over.set_result(None)

    def _notice(self, session: ClientSession, number: list[int | None]) -> None:
        """Tell the server that nobody waits for an answer any more, if it listens."""
        if not number or number[0] is None:
            return
        params = types.CancelledNotificationParams(requestId=number[0], reason="the caller gave up")
        notification = types.ClientNotification(
            types.CancelledNotification(method="notifications/cancelled", params=params)
        )

        async def send() -> None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_NOTIFY_SECONDS):
                    await session.send_notification(notification)

        notice = asyncio.ensure_future(send())
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def close(self) -> None:
        self.lost()
        if self._notices:
            await asyncio.wait(self._notices)


class OwnLink(BorrowedLink):
    """A transport and a session of our own. One task opens and closes both, as their cancel scopes demand."""

    def __init__(self, transport: Transport, heard: MessageHandlerFnT) -> None:
        self._session = None
        self._over = asyncio.get_running_loop().create_future()
        self._notices = set()
        self._transport = transport
        self._heard = heard
        self._name = "mcp"
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    @property
    def server_name(self) -> str:
        return self._name

    async def open(self, timeout: float) -> None:
        """Connect and shake hands. Raises what went wrong, or `TimeoutError`."""
        self._task = asyncio.create_task(self._hold(), name="gloveport-mcp")
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            raise

    async def _hold(self) -> None:
        try:
            async with self._transport() as streams:
                reading: Any = _Watched(streams[0], self.lost)
                info = types.Implementation(name="gloveport", version=__version__)
                async with ClientSession(reading, streams[1], message_handler=self._heard, client_info=info) as session:
                    said = await session.initialize()
                    self._name = said.serverInfo.name
                    self._session = session
                    if not self._ready.done():
                        self._ready.set_result(None)
                    await self._over
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(_leaf(error))
                self._ready.exception()  # if nobody waits for it any more, it is not worth a warning
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self.lost()

    async def close(self) -> None:
        await super().close()
        task = self._task
        if task is None:
            return
        if not self._ready.done():
            task.cancel()
        _, late = await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        if late:
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)


class _Watched:
    """A stream of messages that says when it ends: a session does not."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *about: object) -> Any:
        return await self._stream.__aexit__(*about)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()
            raise StopAsyncIteration from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _late(text: str) -> ToolTimeoutError:
    error = ToolTimeoutError(text)
    error.shown = True
    return error


def _leaf(error: BaseException) -> BaseException:
    """The first error inside of the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return ConnectionError("the connection was given up") if isinstance(error, asyncio.CancelledError) else error
