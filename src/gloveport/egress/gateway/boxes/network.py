"""The sockets of one box's network namespace."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import Final

from .. import dns
from ..attachment import DNS_PORT, JailNetwork, accepted
from ..connections import destination_address
from ..limits import GatewayLimits
from ..names import Names
from ..splicing import reset
from .connections import BoxConnections
from .policy import BoxPolicy

__all__ = ("BoxNetwork", "BoxSockets")

_SORTING_PORT: Final = 65535
"""musl connects there over UDP to learn which of its addresses is nearest (`getaddrinfo` of 1.2.5): no connection to refuse."""


class BoxSockets:
    """What a supervisor hands over, told apart by what it is: after a gateway's death the spares come back with their ports.

    Raises `ValueError` if it is not what a network is made of.
    """

    def __init__(self, descriptors: list[int]) -> None:
        self.watcher = -1
        self.spares: list[socket.socket] = []
        self.listeners: list[socket.socket] = []
        found: dict[int, socket.socket] = {}
        held = [_Held(number) for number in descriptors]
        try:
            for one in held:
                self._sort(one, found)
            self.datagrams, self.queries = found[socket.SOCK_DGRAM], found[socket.SOCK_STREAM]
        except (ValueError, KeyError, OSError):
            for one in held:
                one.close()
            raise ValueError("these are no sockets of a box's network") from None

    def _sort(self, one: _Held, found: dict[int, socket.socket]) -> None:
        sock = one.sock
        if sock is None:
            if not os.readlink(f"/proc/self/fd/{one.number}").startswith("anon_inode:seccomp"):
                raise ValueError("neither a socket nor a watcher")
            self.watcher = one.number
            return
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            raise ValueError("another family")
        port = sock.getsockname()[1]
        if port == DNS_PORT:
            found[sock.type] = sock
        elif sock.type == socket.SOCK_STREAM:
            (self.listeners if port else self.spares).append(sock)
        else:
            raise ValueError("another kind")


class _Held:
    """A descriptor, closed once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sock = socket.socket(fileno=number) if stat.S_ISSOCK(os.fstat(number).st_mode) else None

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
        else:
            os.close(self.number)


class BoxNetwork(JailNetwork):
    """Serves them. What goes to the box's own addresses stays in the box."""

    policy: BoxPolicy
    _OTHERS = True

    def __init__(
        self, sockets: BoxSockets, policy: BoxPolicy, limits: GatewayLimits, names: Names, connections: BoxConnections
    ) -> None:
        super().__init__(
            sockets.datagrams,
            sockets.queries,
            sockets.spares,
            sockets.watcher,
            policy,
            limits,
            names=names,
            connections=connections,
            listeners=sockets.listeners,
        )

    def open_rules(self) -> None:
        """Opens what has to be open before anybody connects: nothing, where the kernel tells of connections.

        A port that is open here is one that no server of the box can have.
        """
        if self._watcher is None:
            self.open_named(self.policy.evaluator.rules)

    def detach(self) -> None:
        """Lets go of the namespace, and leaves the connections alone."""
        self._leave()

    def _answer(self, query: bytes) -> bytes | None:
        return dns.answer(query, self._names, self._why, own_localhost=True)

    def _wanted(self, sockaddr: tuple[str, int]) -> int:
        address, port = destination_address(sockaddr), sockaddr[1]
        if port in (0, DNS_PORT):
            return 0
        if address.is_loopback or address.is_unspecified:
            return errno.ECONNREFUSED if port in self._listeners else 0
        host = self._names.host(address)
        if port == _SORTING_PORT and not self.policy.known(host, port):
            return 0
        connections = self._connections
        assert isinstance(connections, BoxConnections)
        destination = self.policy.intended(host, port)
        if destination is None:
            connections.blocked(host, port)
            return errno.EACCES
        if not self._listen(port):
            used = "a server of this sandbox has that port, so that no connection can go out by it"
            if not self._spares:
                used = "this sandbox has used too many different ports"
            self.policy.failed(host, port, f"cannot connect to {host}:{port}: {used}")
            connections.failed(destination)
            return errno.EACCES
        return 0

    def _accept(self, listener: socket.socket, port: int) -> None:
        for sock in accepted(listener):
            try:
                address = destination_address(sock.getsockname())
            except OSError:
                reset(sock)
                continue
            if address.is_loopback or address.is_unspecified:
                reset(sock)  # nobody of the box listens there, or we could not
            else:
                self._connections.start(sock, self._names.host(address), port)
