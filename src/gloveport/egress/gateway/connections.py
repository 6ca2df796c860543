"""One connection out of a jail: whom it is for, whether it may, and then its bytes."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Coroutine
from typing import Any, Final

from ...errors import EgressDeniedError, HttpFetchError
from ..connecting import connect_async
from ..evaluator import Destination
from . import heads
from .limits import GatewayLimits
from .policy import ConnectionPolicy
from .splicing import Splice, reset

__all__ = ("Connections", "destination_address")

_READ: Final = 16 * 1024


def destination_address(sockaddr: tuple[object, ...]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of a socket, where IPv6 sockets take IPv4 connections too."""
    address = ipaddress.ip_address(str(sockaddr[0]).partition("%")[0])
    return (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address


class Connections:
    """The connections of one attachment, or of one proxy."""

    def __init__(self, policy: ConnectionPolicy, limits: GatewayLimits) -> None:
        self.policy = policy
        self.limits = limits
        self._left = limits.transferred_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._splices: set[Splice] = set()

    def close(self) -> None:
        """Ends them all."""
        for task in self._tasks:
            task.cancel()
        for splice in list(self._splices):
            splice.close(broken=True)

    def start(self, sock: socket.socket, host: str, port: int) -> None:
        """Takes a connection that was meant for there."""
        destination = self.policy.allowed(host, port)
        if destination is None:
            reset(sock)
        elif self.full:
            what = f"{self.limits.connections} connections at a time" if self._left >= 0 else "so many bytes"
            self.policy.refused(destination, f"this module may have {what}, and no more")
            reset(sock)
        else:
            self.adopt(self._serve(sock, destination))

    @property
    def full(self) -> bool:
        """Whether no further connection is taken."""
        return len(self._tasks) >= self.limits.connections or self._left < 0

    def adopt(self, serving: Coroutine[Any, Any, None]) -> None:
        """Counts what serves a connection among the others."""
        task = asyncio.get_running_loop().create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket, destination: Destination) -> None:
        try:
            head = b"" if destination.scheme == "tcp" else await self._head(sock, destination)
            if head is not None:
                await self.carry(sock, destination, head)
        finally:
            reset(sock)

    async def carry(self, sock: socket.socket, destination: Destination, head: bytes, answer: bytes = b"") -> None:
        """Connects to an allowed destination, sends it `head` (and `answer` to whoever asked), and joins the two."""
        upstream = await self._dial(destination)
        if upstream is None:
            return
        loop = asyncio.get_running_loop()
        try:
            if answer:
                await loop.sock_sendall(sock, answer)
            if head:
                await loop.sock_sendall(upstream, head)
        except BaseException as error:
            reset(upstream)
            if isinstance(error, OSError):
                return
            raise
        await self._join(sock, upstream)

    async def _head(self, sock: socket.socket, destination: Destination) -> bytes | None:
        """The first bytes of a connection, once they have named the destination; `None` if they never do, or name another."""
        try:
            return await self._begun(sock, destination)
        except heads.Misread as error:
            self.policy.refused(destination, f"the connection to {destination} {error}")
            return None

    async def _begun(self, sock: socket.socket, destination: Destination) -> bytes | None:
        """The same; `None` if there is nothing to read any more. Raises `Misread` for what names nobody, or another."""
        data = b""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.limits.head_timeout):
                while not (said := _said(data, destination)):
                    more = await loop.sock_recv(sock, _READ)
                    if not more:
                        if data:
                            raise heads.Misread("ended before it said whom it is for")
                        return None
                    data += more
            _check_name(said[0], destination)
        except TimeoutError:
            raise heads.Misread("did not say in time whom it is for") from None
        except OSError:
            return None
        return data

    async def _dial(self, destination: Destination) -> socket.socket | None:
        deadline = time.monotonic() + self.limits.dial_timeout
        try:
            async with asyncio.timeout(self.limits.dial_timeout):
                return await connect_async(await self.policy.vetted(destination), deadline)
        except (EgressDeniedError, HttpFetchError) as error:
            self.policy.failed(destination.host, destination.port, str(error))
        except (TimeoutError, OSError):
            self.policy.failed(destination.host, destination.port, f"{destination.host} did not answer in time")
        return None

    async def _join(self, sock: socket.socket, upstream: socket.socket) -> None:
        await self._spliced(Splice(sock, upstream, self._carried))

    async def _spliced(self, splice: Splice) -> None:
        for end in splice.sockets:
            if end.family != socket.AF_UNIX and end.fileno() >= 0:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splices.add(splice)
        try:
            before = -1
            while not splice.done.done():
                await asyncio.wait([splice.done], timeout=self.limits.idle_timeout)
                if splice.moved == before:
                    break
                before = splice.moved
        finally:
            splice.close(broken=True)
            self._splices.discard(splice)

    def _carried(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            for splice in list(self._splices):
                splice.close(broken=True)


def _said(data: bytes, destination: Destination) -> tuple[str | None] | None:
    if not data:
        return None
    if destination.scheme == "https":
        if not heads.is_tls(data):
            raise heads.Misread("does not begin as TLS should")
        return heads.tls_name(data)
    host = heads.http_host(data, destination.port)
    return None if host is None else (host,)


def _check_name(said: str | None, destination: Destination) -> None:
    """The name that a connection says is the one that was looked up for it: else a server would serve whom the rules do not name."""
    literal = ":" in destination.host or destination.host.rpartition(".")[2].isdigit()
    if said is None and literal:
        return  # TLS has no server name for an address
    if said != destination.host:
        raise heads.Misread("names another host than the one that it was opened for" if said else "names no host")
