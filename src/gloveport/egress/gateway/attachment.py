"""One jail's network, inside of the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterable, Iterator
from typing import Final

from ...policy import NetworkRules
from . import dns
from .connections import Connections, destination_address
from .limits import GatewayLimits
from .names import Names
from .policy import ConnectionPolicy
from .splicing import reset
from .watching import Watcher

__all__ = ("DNS_PORT", "JailNetwork", "accepted")

_ACCEPTED_AT_ONCE: Final = 16
DNS_PORT: Final = 53
_IP_PKTINFO: Final = 8
_QUERY: Final = 4096
_QUERIES: Final = 32


def accepted(listener: socket.socket) -> Iterator[socket.socket]:
    """Connections that wait, some of them."""
    for _ in range(_ACCEPTED_AT_ONCE):
        try:
            sock, _peer = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        yield sock


class JailNetwork:
    """Serves the sockets of a jail's network namespace.

    `spares` get a port when one is wanted. `named` ports are opened at once; the others when the watcher tells of them, if there is one.
    """

    _OTHERS = False
    """Whether connections that are none of the internet are the guest's own affair."""

    def __init__(
        self,
        datagrams: socket.socket,
        queries: socket.socket,
        spares: list[socket.socket],
        watcher: int,
        policy: ConnectionPolicy,
        limits: GatewayLimits,
        *,
        names: Names | None = None,
        connections: Connections | None = None,
        listeners: Iterable[socket.socket] = (),
    ) -> None:
        self.policy = policy
        self._loop = asyncio.get_running_loop()
        self._names = names or Names(limits.names)
        self._connections = connections or Connections(policy, limits)
        self._spares = spares
        self._listeners: dict[int, socket.socket] = {}
        self._datagrams, self._queries = datagrams, queries
        self._asked: set[asyncio.Task[None]] = set()
        for sock in (datagrams, queries, *spares):
            sock.setblocking(False)
        self._loop.add_reader(datagrams, self._datagram)
        self._loop.add_reader(queries, self._accept_query)
        for sock in listeners:
            sock.setblocking(False)
            self._listeners[sock.getsockname()[1]] = sock
            self._loop.add_reader(sock, self._accept, sock, sock.getsockname()[1])
        self._watcher = Watcher(watcher, self._wanted, others=self._OTHERS) if watcher >= 0 else None
        self.open_rules()

    def open_rules(self) -> None:
        """Listens on what has to be open before anybody connects."""
        self.open_named(self.policy.evaluator.rules)

    def open_named(self, rules: NetworkRules) -> None:
        """Listens on the ports that the rules name, and on those of HTTP."""
        named = {port for rule in rules.allow for port in rule.ports or ()}
        for port in (80, 443, *sorted(named)):
            self._listen(port)

    def close(self) -> None:
        """Ends every connection and lets go of the namespace."""
        self._leave()
        self._connections.close()

    def _leave(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        for sock in (self._datagrams, self._queries, *self._listeners.values()):
            self._loop.remove_reader(sock)
        for task in self._asked:
            task.cancel()
        for sock in (self._datagrams, self._queries, *self._listeners.values(), *self._spares):
            sock.close()

    def _listen(self, port: int) -> bool:
        if port in self._listeners or port == DNS_PORT:
            return True
        if not self._spares:
            return False
        sock = self._spares.pop()
        try:
            sock.bind(("::" if sock.family == socket.AF_INET6 else "0.0.0.0", port))  # noqa: S104  (inside of the jail)
            sock.listen(64)
        except OSError:
            sock.close()
            return False
        self._listeners[port] = sock
        self._loop.add_reader(sock, self._accept, sock, port)
        return True

    def _wanted(self, sockaddr: tuple[str, int]) -> int:
        """0 if a connection there may be made: then somebody listens for it. Else the error that it gets."""
        address, port = destination_address(sockaddr), sockaddr[1]
        if port in (0, DNS_PORT):
            return 0  # no connection; or a name server, which all are ours
        host = self._names.host(address)
        if self.policy.allowed(host, port) is None:
            return errno.EACCES
        if not self._listen(port):
            self.policy.failed(host, port, "this module has used too many different ports: a fresh one can use others")
            return errno.EACCES
        return 0

    def _accept(self, listener: socket.socket, port: int) -> None:
        for sock in accepted(listener):
            try:
                host = self._names.host(destination_address(sock.getsockname()))
            except OSError:
                reset(sock)
                continue
            self._connections.start(sock, host, port)

    # ── questions for names ──────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, query: bytes) -> bytes | None:
        return dns.answer(query, self._names, self._why)

    def _why(self, host: str, port: int) -> str | None:
        """Why a connection failed. One that nobody heard of went to a port on which nobody listens."""
        known = self.policy.why(host, port)
        if known is None and self._watcher is None and port not in self._listeners and self.policy.allowed(host, port):
            return f"port {port} is open only to a rule that names it ('{host}:{port}'), as this system does not tell of connections"
        return known or self.policy.why(host, port)

    def _datagram(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                query, where, _, sender = self._datagrams.recvmsg(_QUERY, socket.CMSG_SPACE(32))
            except OSError:
                return
            answer = self._answer(query)
            if answer is not None:
                # What came with it says which address was asked: the answer goes out from there.
                asked = [
                    (level, kind, data)
                    for level, kind, data in where
                    if level == socket.IPPROTO_IPV6 or kind == _IP_PKTINFO
                ]
                with contextlib.suppress(OSError):
                    self._datagrams.sendmsg([dns.shortened(answer)], asked, 0, sender)

    def _accept_query(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._queries.accept()
            if len(self._asked) >= _QUERIES:
                sock.close()
                return
            sock.setblocking(False)
            task = self._loop.create_task(self._serve_queries(sock))
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

    async def _serve_queries(self, sock: socket.socket) -> None:
        """Questions over TCP: each behind its length (RFC 1035, 4.2.2)."""
        data = b""
        with sock, contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(10):
                while True:
                    while len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2]):
                        more = await self._loop.sock_recv(sock, _QUERY)
                        if not more:
                            return
                        data += more
                    length = int.from_bytes(data[:2])
                    answer = self._answer(data[2 : 2 + length])
                    data = data[2 + length :]
                    if answer is None:
                        return
                    await self._loop.sock_sendall(sock, len(answer).to_bytes(2) + answer)
