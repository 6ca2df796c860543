"""An HTTP proxy on a unix socket in a box's directory, for boxes whose network namespace has no sockets to give.

The same rules, log and refusals. Who connects is the guest: what it says behind `CONNECT` is looked at as on its own connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from typing import Final

from ....policy import host_name
from ...evaluator import Destination
from ..attachment import accepted
from ..heads import MAX_HEAD, Misread
from ..policy import schemes
from ..splicing import reset
from .connections import BoxConnections, say
from .dialing import unix_address
from .requests import RequestHead, answer, parse_request

__all__ = ("PROXY_FOLDER", "PROXY_SOCKET", "BoxProxy")

PROXY_FOLDER, PROXY_SOCKET = "net", "proxy.sock"
_TARGET: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/]+):([0-9]{1,5})")
_URL: Final = re.compile(r"http://(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/?#]+)(?::([0-9]{1,5}))?(?=[/?]|$)", re.IGNORECASE)
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class BoxProxy:
    """Listens on `net/proxy.sock` of the box's directory."""

    def __init__(self, folder: str, connections: BoxConnections) -> None:
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        os.makedirs(os.path.join(folder, PROXY_FOLDER), mode=0o755, exist_ok=True)
        self._path = os.path.join(folder, PROXY_FOLDER, PROXY_SOCKET)
        directory = os.open(os.path.dirname(self._path), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(unix_address(directory, PROXY_SOCKET))
            os.chmod(self._path, 0o666)  # the folder is bound into this box alone  # noqa: S103
            self._listener.listen(64)
        finally:
            os.close(directory)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Listens no more."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _accept(self) -> None:
        for sock in accepted(self._listener):
            reset(sock) if self._connections.full else self._connections.adopt(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        try:
            async with asyncio.timeout(self._connections.limits.head_timeout):
                data = await self._head(sock)
            if data:
                await self._answer(sock, data)
        except (OSError, TimeoutError):
            pass
        finally:
            reset(sock)

    async def _head(self, sock: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = await self._loop.sock_recv(sock, 16384)
            data += more
            if not more or len(data) > MAX_HEAD:
                return b""
        return data

    async def _answer(self, sock: socket.socket, data: bytes) -> None:
        try:
            request = parse_request(data)
            match = (_TARGET.fullmatch if request.method == "CONNECT" else _URL.match)(request.target)
            if match is None:
                raise Misread("is for a proxy: CONNECT host:port, or a URL with http://")
            host, port = host_name(match[1]), int(match[2] or 80)
            if not 0 < port < 65536:
                raise Misread("names a port that is none")
        except ValueError as error:
            await say(sock, answer("400 Bad Request", f"the request {error}"))
            return
        if request.method == "CONNECT":
            await self._tunnel(sock, host, port, request.rest)
        else:
            await self._request(sock, host, port, request)

    async def _request(self, sock: socket.socket, host: str, port: int, request: RequestHead) -> None:
        authority = f"[{host}]" if ":" in host else host
        request.fields = [(name, value) for name, value in request.fields if name.lower() != "host"]
        request.fields.insert(0, ("Host", authority if port == 80 else f"{authority}:{port}"))
        destination = Destination(host, port, "http")
        row = self._connections.row(destination)
        try:
            with self._connections.serving(destination, row):
                if self._connections.interception.opens(destination):
                    request.target = request.origin_target
                    lines = [f"{request.method} {request.target} HTTP/{request.version}"]
                    lines += [f"{name}: {value}" for name, value in request.fields]
                    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.rest
                    await self._connections.interception.serve(self._connections, sock, destination, head, row)
                else:
                    await self._connections.requested(sock, destination, request, row)
        finally:
            self._connections.journal.end(row)

    async def _tunnel(self, sock: socket.socket, host: str, port: int, rest: bytes) -> None:
        policy = self._connections.policy
        destination = policy.opened(host, port) or policy.allowed(host, port)
        if destination is None:
            self._connections.blocked(host, port)
            await say(sock, answer("403 Forbidden", policy.why(host, port) or "blocked by policy"))
            return
        if rest:
            await say(sock, answer("400 Bad Request", "the tunnel is not there yet"))
            return
        assert destination.scheme in schemes(port)
        row = self._connections.row(destination)
        try:
            if self._connections.interception.opens(destination) or destination.scheme == "http":
                await self._loop.sock_sendall(sock, _ESTABLISHED)
                await self._connections.serve(sock, destination, row)
                return
            with self._connections.serving(destination, row):
                upstream = await self._connections.reach(destination, row)
                if upstream is None:
                    blocked = row.verdict == "blocked"
                    await say(sock, answer("403 Forbidden" if blocked else "502 Bad Gateway", row.reason))
                    return
                await self._connections.tunnelled(sock, upstream, destination, _ESTABLISHED, row)
        finally:
            self._connections.journal.end(row)
