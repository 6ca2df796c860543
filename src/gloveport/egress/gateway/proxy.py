"""An HTTP proxy on the host's loopback, for programs that are trusted and all the same get no more than their rules."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import re
import socket
from typing import Final

from ...errors import EgressDeniedError
from ...policy import host_name
from ..evaluator import Destination, refusal
from ..urls import Url
from .connections import Connections
from .heads import MAX_HEAD
from .limits import GatewayLimits
from .policy import ConnectionPolicy
from .splicing import reset

__all__ = ("ProxyServer",)

_CONNECT_TARGET: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/]+):([0-9]{1,5})")
_HOP: Final = frozenset(
    {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "trailer", "upgrade", "host"}
)
"""Fields that belong to this connection, not to the request (RFC 9110, 7.6.1), and the one that is written anew."""
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ProxyServer:
    """Answers `CONNECT host:port`, and requests for `http://` URLs, to whoever has the credential (RFC 9110, 9.3.6)."""

    def __init__(self, credential: str, policy: ConnectionPolicy, limits: GatewayLimits) -> None:
        self.policy = policy
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(policy, limits)
        self._expected = b"Basic " + base64.b64encode(credential.encode())
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Ends every connection."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._connections.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            reset(sock) if self._connections.full else self._connections.adopt(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self._connections.limits.head_timeout):
                    head, body = await self._head(sock)
                await self._answer(sock, head, body)
        finally:
            sock.close()

    async def _head(self, sock: socket.socket) -> tuple[list[str], bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            more = await self._loop.sock_recv(sock, 16384)
            if not more or len(data) > MAX_HEAD:
                raise TimeoutError
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        return head.decode("latin-1").split("\r\n"), body

    async def _answer(self, sock: socket.socket, head: list[str], body: bytes) -> None:
        fields = [tuple(line.split(":", 1)) for line in head[1:]]
        given = [field[1].strip().encode() for field in fields if field[0].lower() == "proxy-authorization"]
        if len(given) != 1 or not hmac.compare_digest(given[0], self._expected):
            await self._say(
                sock, "407 Proxy Authentication Required", "this proxy has another user", "Proxy-Authenticate: Basic"
            )
            return
        words = head[0].split(" ")
        try:
            if len(words) != 3 or not words[2].startswith("HTTP/1."):
                raise ValueError("that is no HTTP/1 request")
            if words[0] == "CONNECT":
                destination = self._tunnel(words[1])
                await self._connections.carry(sock, destination, body, _ESTABLISHED)
            else:
                destination, request = self._request(words, fields)
                await self._connections.carry(sock, destination, request + body)
        except EgressDeniedError as error:
            await self._say(sock, "403 Forbidden", str(error))
            return
        except ValueError as error:
            await self._say(sock, "400 Bad Request", str(error))
            return
        if sock.fileno() >= 0 and (why := self.policy.why(destination.host, destination.port)):
            await self._say(sock, "502 Bad Gateway", why)

    def _tunnel(self, target: str) -> Destination:
        match = _CONNECT_TARGET.fullmatch(target)
        if match is None:
            raise ValueError("CONNECT takes host:port")
        host, port = host_name(match[1]), int(match[2])
        destination = self.policy.allowed(host, port)
        if destination is None:
            raise EgressDeniedError(self.policy.why(host, port) or "blocked by policy")
        return destination

    def _request(self, words: list[str], fields: list[tuple[str, ...]]) -> tuple[Destination, bytes]:
        url = Url.parse(words[1], schemes=("http",), max_length=8192)
        destination = Destination.of(url, words[0])
        verdict = self.policy.evaluator.evaluate(destination)
        if not verdict.allowed:
            raise refusal(verdict)
        kept = [f"{field[0]}:{field[1]}" for field in fields if len(field) == 2 and field[0].lower() not in _HOP]
        # One request for each connection: a second one could be for somebody else.
        lines = [f"{words[0]} {url.target} HTTP/1.1", f"Host: {url.authority}", "Connection: close", *kept]
        return destination, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def _say(self, sock: socket.socket, status: str, text: str, *more: str) -> None:
        body = text.encode()
        fields = "".join(f"{line}\r\n" for line in more)
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        await self._loop.sock_sendall(sock, f"{head}Connection: close\r\n{fields}\r\n".encode() + body)
