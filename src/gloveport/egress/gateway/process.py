"""The gateway's program. Started by `client.Gateway`, never by hand."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import socket
import struct
import sys
from typing import Final

import msgspec

from ..lookup import Lookups, Resolver, system_resolver
from .attachment import JailNetwork
from .messages import MAX_DESCRIPTORS, MAX_PACKET, Ask, Open, Reply
from .policy import ConnectionPolicy
from .proxy import ProxyServer

__all__ = ("main",)

_INT: Final = struct.calcsize("i")
_LOOKUPS: Final = 16
_encode = msgspec.json.Encoder().encode
_decode_open = msgspec.json.Decoder(Open).decode
_decode_ask = msgspec.json.Decoder(Ask).decode


def main(arguments: list[str], resolver: Resolver = system_resolver) -> None:
    """`arguments`: the control socket, a pidfd of the host. Ends when either of them does. `resolver` gives names their addresses."""
    control_fd, host = map(int, arguments)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=control_fd)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # six descriptors for each connection
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    gc.freeze()
    asyncio.run(_Broker(control, host, resolver).run())
    sys.stdout.flush()
    os._exit(0)  # look-ups that hang have threads


class _Broker:
    def __init__(self, control: socket.socket, host: int, resolver: Resolver) -> None:
        self._control = control
        self._host = host
        self._over = asyncio.Event()
        self._resolver = resolver

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._control.setblocking(False)
        loop.add_reader(self._control, self._open)
        loop.add_reader(self._host, self._over.set)
        self._control.send(b"ready")
        await self._over.wait()

    def _open(self) -> None:
        flags = socket.MSG_CMSG_CLOEXEC
        try:
            packet, ancillary, _, _ = self._control.recvmsg(MAX_PACKET, socket.CMSG_LEN(MAX_DESCRIPTORS * _INT), flags)
        except BlockingIOError:
            return
        except OSError:
            packet, ancillary = b"", []
        if not packet:
            self._over.set()
            return
        fds: list[int] = []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += struct.unpack(f"{len(content) // _INT}i", content)
        channel = socket.socket(fileno=fds.pop(0))
        try:
            # Each has look-ups of its own, so that names that hang are nobody else's trouble.
            _Served(channel, _decode_open(packet), fds, Lookups(self._resolver, _LOOKUPS))
        except Exception as error:  # of one attachment; the others go on
            with contextlib.suppress(OSError):
                channel.send(_encode(Reply(error=f"{type(error).__name__}: {error}")))
            channel.close()


class _Served:
    """One attachment and its socket."""

    def __init__(self, channel: socket.socket, order: Open, fds: list[int], lookups: Lookups) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._policy = ConnectionPolicy(order.rules, lookups)
        self._serves: JailNetwork | ProxyServer
        if order.kind == "proxy":
            self._serves = ProxyServer(order.credential, self._policy, order.limits)
            reply = Reply(port=self._serves.port)
        else:
            datagrams, queries, *spares = fds
            watcher = spares.pop(0) if order.watched else -1
            sockets = [socket.socket(fileno=fd) for fd in (datagrams, queries, *spares)]
            self._serves = JailNetwork(sockets[0], sockets[1], sockets[2:], watcher, self._policy, order.limits)
            reply = Reply()
        channel.setblocking(False)
        self._loop.add_reader(channel, self._hear)
        channel.send(_encode(reply))

    def _hear(self) -> None:
        try:
            packet = self._channel.recv(MAX_PACKET)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._close()
            return
        with contextlib.suppress(OSError):
            self._channel.send(_encode(self._answer(_decode_ask(packet))))

    def _close(self) -> None:
        self._loop.remove_reader(self._channel)
        self._channel.close()
        self._serves.close()

    def _answer(self, ask: Ask) -> Reply:
        if ask.what == "close":
            self._close()
            return Reply()
        if ask.what == "why":
            return Reply(why=self._policy.why(ask.host, ask.port) or "")
        if ask.what == "rules" and ask.rules is not None:
            self._policy.replace(ask.rules)
            if isinstance(self._serves, JailNetwork):
                self._serves.open_named(ask.rules)
            return Reply()
        count, decisions = self._policy.decisions(ask.since)
        return Reply(count=count, decisions=list(decisions))
