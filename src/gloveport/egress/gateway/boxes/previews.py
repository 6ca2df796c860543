"""Ports of boxes on the host's loopback: a byte relay through the box's agent. It needs no network in the box."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, urlencode

from ....errors import HttpFetchError
from ..attachment import accepted
from ..heads import Misread
from ..splicing import Splice, reset
from .connections import say
from .dialing import dial_box
from .plans import Preview
from .requests import RequestHead, answer, parse_request

__all__ = ("TOKEN_HEADER", "TOKEN_NAME", "Previews")

TOKEN_NAME: Final = "gloveport_token"  # noqa: S105  (a name)
"""Of the query parameter and of the cookie."""
TOKEN_HEADER: Final = "x-gloveport-token"  # noqa: S105
_AT_ONCE: Final = 128
_MAX_HEAD: Final = 32 * 1024
_HEAD_TIMEOUT: Final = 10.0
_DIAL_TIMEOUT: Final = 30.0


class Previews:
    """Those of one box."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open: dict[Preview, _Listener] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def set(self, wanted: Iterable[Preview]) -> list[str]:
        """Opens these, closes the others. Gives what went wrong."""
        wanted = tuple(wanted)
        for preview in [preview for preview in self._open if preview not in wanted]:
            self._open.pop(preview).close()
        errors: list[str] = []
        for preview in wanted:
            if preview not in self._open:
                try:
                    self._open[preview] = _Listener(self._folder, preview)
                except OSError as error:
                    errors.append(f"port {preview.host_port} of 127.0.0.1: {error.strerror}")
        return errors

    def close(self) -> None:
        """Closes all, with their connections."""
        self.set(())


class _Listener:
    def __init__(self, folder: str, preview: Preview) -> None:
        self._folder, self._preview = folder, preview
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sock = socket.create_server(("127.0.0.1", preview.host_port), backlog=64)
        self._sock.setblocking(False)
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for sock in accepted(self._sock):
            if len(self._tasks) >= _AT_ONCE:
                reset(sock)
                continue
            task = self._loop.create_task(self._serve(sock))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket) -> None:
        try:
            head = b""
            if self._preview.token:
                passed = await self._let_in(sock)
                if passed is None:
                    return
                head = passed
            await self._relay(sock, head)
        except (OSError, TimeoutError):
            pass
        finally:
            reset(sock)

    async def _relay(self, sock: socket.socket, head: bytes) -> None:
        try:
            inside = await dial_box(self._folder, self._preview.port, _DIAL_TIMEOUT)
        except (HttpFetchError, OSError, TimeoutError) as error:
            text = f"port {self._preview.port} of the sandbox does not answer: {error or 'it took too long'}"
            if head or await _speaks_http(sock):
                await say(sock, answer("502 Bad Gateway", text))
            return
        try:
            await self._loop.sock_sendall(inside, head)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            splice = Splice(sock, inside, lambda _: None)
        except BaseException:
            inside.close()
            raise
        try:
            await asyncio.shield(splice.done)
        finally:
            splice.close(broken=True)

    async def _let_in(self, sock: socket.socket) -> bytes | None:
        """The first bytes of somebody who has shown the token; everybody else is answered here."""
        data = b""
        async with asyncio.timeout(_HEAD_TIMEOUT):
            while b"\r\n\r\n" not in data:
                more = await self._loop.sock_recv(sock, 16384)
                data += more
                if not more or len(data) > _MAX_HEAD:
                    return None
        try:
            request = parse_request(data)
        except Misread:
            await say(sock, answer("400 Bad Request", "a private port of a sandbox is for HTTP/1 only"))
            return None
        path, _, query = request.origin_target.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        if any(name == TOKEN_NAME and self._is_token(value) for name, value in pairs):
            # Out of the address bar, and of what pages tell other servers about where they were linked from.
            kept = urlencode([(name, value) for name, value in pairs if name != TOKEN_NAME])
            cookie = f"Set-Cookie: {TOKEN_NAME}={self._preview.token}; Path=/; HttpOnly; SameSite=Lax"
            # One slash, or a browser would read the path as another host.
            where = "/" + path.lstrip("/\\") + (f"?{kept}" if kept else "")
            await say(sock, answer("303 See Other", "", f"Location: {where}", cookie))
            return None
        if any(map(self._is_token, [*request.values(TOKEN_HEADER), *_cookies(request)])):
            return data
        await say(sock, answer("401 Unauthorized", "this port of a sandbox is private: its URL has a token"))
        return None

    def _is_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode(), self._preview.token.encode())


async def _speaks_http(sock: socket.socket) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1):
            return re.match(rb"[A-Z]{3,10} /", await asyncio.get_running_loop().sock_recv(sock, 1024)) is not None
    return False


def _cookies(request: RequestHead) -> list[str]:
    pairs = [part.strip().partition("=") for value in request.values("cookie") for part in value.split(";")]
    return [value for name, _, value in pairs if name == TOKEN_NAME]
