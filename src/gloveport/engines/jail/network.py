"""A network namespace that leads to the host and nowhere else.

There is one device, `lo`, and every address of the world is made one of its own (`ip route add local default dev lo`), so that a
connection to anywhere ends at a socket in this namespace. A socket stays in the namespace where it was made: the launcher makes
them while it may, and gives them to the host, which listens on them. Nothing of ours runs beside the guest, and the guest has no
way to any other network, whatever it does.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from typing import Final

__all__ = ("FILES", "SPARE_SOCKETS", "NetworkSockets", "open_sockets", "resolver_libraries")

SPARE_SOCKETS: Final = 32
"""TCP sockets without a port. The host gives each the port that it wants to hear of; there are no more of them later. Until it passes
them on, they are descriptors of the host, for each program that waits in a pool: so not hundreds."""

FILES: Final = (
    # `search .`: else names without a dot are also asked for below the domain of the host's name.
    ("/etc/resolv.conf", b"nameserver 127.0.0.1\nsearch .\noptions timeout:5 attempts:2\n"),
    # No hosts file: `localhost` too is a name that the rules decide about.
    ("/etc/nsswitch.conf", b"hosts: dns\n"),
    ("/etc/hosts", b""),
)
"""What a C library reads to resolve names, for the root of the jail."""

_DNS_PORT: Final = 53
_IP_PKTINFO: Final = 8
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_RTM_NEWROUTE, _NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_CREATE = 24, 1, 4, 0x400
_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, _RTA_OIF = 255, 3, 254, 2, 4
_LOW_PORTS: Final = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


@dataclasses.dataclass(slots=True)
class NetworkSockets:
    """Descriptors of sockets in a jail's network namespace. Whoever has them closes them."""

    datagrams: int
    """UDP, on port 53."""
    queries: int
    """TCP, listening on port 53."""
    spares: list[int]
    """TCP, neither bound nor listening."""
    watcher: int = -1
    """Where the kernel asks before each `connect` of the jailed program (seccomp_unotify(2)); -1 where it cannot."""

    def descriptors(self) -> list[int]:
        """All of them, in the order of `of`."""
        return [self.datagrams, self.queries, *([self.watcher] if self.watcher >= 0 else []), *self.spares]

    @classmethod
    def of(cls, descriptors: list[int], *, watched: bool) -> NetworkSockets:
        """From what `descriptors` gave."""
        datagrams, queries, *rest = descriptors
        return cls(datagrams, queries, rest[watched:], rest[0] if watched else -1)

    def close(self) -> None:
        """Idempotent."""
        for fd in self.descriptors():
            if fd >= 0:
                os.close(fd)
        self.datagrams = self.queries = self.watcher = -1
        self.spares = []


def resolver_libraries(libraries: Iterable[str]) -> list[str]:
    """What a C library loads once a name is looked up, beside the libraries of a program (glibc before 2.34)."""
    folders = dict.fromkeys(os.path.dirname(path) for path in libraries)
    found = (os.path.join(folder, name) for folder in folders for name in ("libnss_dns.so.2", "libresolv.so.2"))
    return [path for path in found if os.path.isfile(path)]


def open_sockets() -> NetworkSockets:
    """Brings this process's (new) network namespace up and makes the sockets. Raises `OSError`."""
    index = _bring_up_loopback()
    _route(socket.AF_INET, index)
    family = socket.AF_INET
    try:
        _route(socket.AF_INET6, index)
        family = socket.AF_INET6
    except OSError:
        pass  # a kernel without IPv6: then there are no IPv6 destinations either
    try:
        with open(_LOW_PORTS, "w", encoding="ascii") as file:
            file.write("0")  # who listens later may have no power here
    except OSError:
        pass
    datagrams, queries = _socket(family, socket.SOCK_DGRAM), _socket(family, socket.SOCK_STREAM)
    for sock in (datagrams, queries):
        sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", _DNS_PORT))  # noqa: S104  (all there is in here is `lo`)
    queries.listen(16)
    spares = [_socket(family, socket.SOCK_STREAM).detach() for _ in range(SPARE_SOCKETS)]
    return NetworkSockets(datagrams.detach(), queries.detach(), spares)


def _socket(family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    sock = socket.socket(family, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    if kind == socket.SOCK_DGRAM:  # an answer has to come from the address that was asked
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    return sock


def _bring_up_loopback() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh22x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))
    return socket.if_nametoindex("lo")


def _route(family: socket.AddressFamily, index: int) -> None:
    """`ip route add local default dev lo`: rtnetlink(7)."""
    message = struct.pack(
        "BBBBBBBBI", family, 0, 0, 0, _RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, 0
    ) + struct.pack("HHI", 8, _RTA_OIF, index)
    flags = _NLM_F_REQUEST | _NLM_F_ACK | _NLM_F_CREATE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.settimeout(5.0)
        netlink.send(struct.pack("IHHII", 16 + len(message), _RTM_NEWROUTE, flags, 1, 0) + message)
        (error,) = struct.unpack_from("i", netlink.recv(4096), 16)
    if error:
        raise OSError(-error, f"the route of the jail's network: {os.strerror(-error)}")
