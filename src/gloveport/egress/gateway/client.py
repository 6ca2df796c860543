"""The host's hold on its gateway: `Gateway`."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import struct
import threading
import weakref
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import msgspec

from ...errors import EngineUnavailableError
from ...policy import NetworkRules
from ..evaluator import Decision
from .limits import DEFAULTS, GatewayLimits
from .messages import MAX_PACKET, Ask, Open, Reply

__all__ = ("Attachment", "Child", "Gateway", "Proxy", "Sockets", "Start")

PROGRAM: Final = "gloveport.egress.gateway.process"
_TIMEOUT: Final = 30.0
_KEPT: Final = 256
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Reply).decode


class Child(Protocol):
    """A started Python process, and our end of the socket that it was given."""

    control: socket.socket

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def said(self) -> str: ...
    def reap(self, timeout: float | None = 5.0) -> int: ...
    def forget(self) -> None: ...


class Sockets(Protocol):
    """The sockets of a jail's network: `engines.jail.network.NetworkSockets`."""

    watcher: int

    def descriptors(self) -> list[int]: ...
    def close(self) -> None: ...


_ChannelT = TypeVar("_ChannelT", bound="_Channel")
Start = Callable[[str], Child]
"""Starts `module.main([socket, host])`, numbers of a socket to us and of a descriptor of this process:
`engines.jail.child.HelperProcess`."""


class _Channel:
    """One attachment's socket. Any thread may use it; a forked copy of the host may not."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(_TIMEOUT)
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._seen = 0
        self._decisions: list[Decision] = []
        _channels.add(self)

    @property
    def alive(self) -> bool:
        """Whether the gateway still serves it. If not, every connection is refused, and stays so."""
        if self._sock.fileno() < 0 or self._owner != os.getpid():
            return False
        poll = select.poll()  # not `recv` without waiting: a socket with a time limit waits all the same
        poll.register(self._sock, 0)
        return not poll.poll(0)  # it hangs up with the gateway's end

    def decisions(self) -> tuple[Decision, ...]:
        """The last 256, oldest first; also after the gateway's end."""
        with contextlib.suppress(EngineUnavailableError):
            self._fetch()
        return tuple(self._decisions)

    def new_decisions(self) -> tuple[Decision, ...]:
        """Those that were made since this was last asked (at most 256)."""
        try:
            return self._fetch()
        except EngineUnavailableError:
            return ()

    def set_rules(self, rules: NetworkRules) -> None:
        """Other rules, for the connections that are made from now on. Raises `EngineUnavailableError` when the gateway is gone."""
        self.ask(Ask("rules", rules=rules))

    def why(self, host: str, port: int) -> str | None:
        """Why the last connection there failed, as the model reads it; `None` if none did within a minute."""
        try:
            return self.ask(Ask("why", host=host, port=port)).why or None
        except EngineUnavailableError:
            return "the network of this module has ended: it needs a fresh worker"

    def close(self) -> None:
        """Ends every connection. Idempotent."""
        if self._owner != os.getpid():
            self._sock.close()
            return
        with self._lock, self._sock, contextlib.suppress(OSError):
            # In words too: a copy of this process that was forked with the socket keeps it open.
            self._sock.settimeout(0)
            self._sock.send(_packet(Ask("close")))

    def _fetch(self) -> tuple[Decision, ...]:
        reply = self.ask(Ask("decisions", since=self._seen))
        with self._lock:
            self._seen = reply.count
            self._decisions = [*self._decisions, *reply.decisions][-_KEPT:]
        return tuple(reply.decisions)

    def ask(self, ask: Ask) -> Reply:
        """One question and its answer."""
        if self._owner != os.getpid():
            raise EngineUnavailableError("the network gateway belongs to the process that this one was forked from")
        with self._lock:
            try:
                self._sock.send(_packet(ask))
                return self.answer()
            except (OSError, msgspec.MsgspecError) as error:
                self._sock.close()  # an answer that is late would be taken for that to the next question
                raise EngineUnavailableError(f"the network gateway does not answer: {error}") from error

    def answer(self) -> Reply:
        """The next reply."""
        packet = self._sock.recv(1 << 20)
        if not packet:
            raise EngineUnavailableError("the network gateway has ended")
        reply = _decode(packet)
        if reply.error:
            raise EngineUnavailableError(f"the network gateway refuses: {reply.error}")
        return reply


_channels: weakref.WeakSet[_Channel] = weakref.WeakSet()


def _leave_channels() -> None:
    """In a forked copy of the host: what is the parent's is left to it."""
    for channel in list(_channels):
        channel.close()


os.register_at_fork(after_in_child=_leave_channels)


class Attachment(_Channel):
    """A jail's network, under rules. `close` ends it, as the loss of every reference does."""


class Proxy(_Channel):
    """An HTTP proxy under rules, for trusted programs."""

    url: str = ""
    """`http://user:password@127.0.0.1:port`, for `HTTPS_PROXY` and the like. Whoever knows it may use it."""


def _end(child: Child) -> None:
    child.control.close()
    child.reap(1.0)


class Gateway:
    """The gateway of this process, started when it is first needed and again when it has died. Any thread may use it.

    It ends with this process. In a forked copy the first use starts another one.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._running: Child | None = None

    def attach(self, sockets: Sockets, rules: NetworkRules, limits: GatewayLimits = DEFAULTS) -> Attachment:
        """Serves a jail's network by `rules` (which `connection_rules` has checked). `sockets` are closed here in any case.

        Takes a millisecond, and 0.1 s when the gateway has to be started: call it in a thread. Raises `EngineUnavailableError`.
        """
        try:
            order = Open("jail", rules, limits, watched=sockets.watcher >= 0)
            channel, _ = self._open(Attachment, order, sockets.descriptors())
        finally:
            sockets.close()
        return channel

    def proxy(self, rules: NetworkRules, limits: GatewayLimits = DEFAULTS) -> Proxy:
        """An HTTP proxy on loopback for one trusted program: `CONNECT`, and requests for `http://` URLs (for these, rules may have
        paths and methods). Raises `EngineUnavailableError`."""
        credential = f"gloveport:{secrets.token_urlsafe(24)}"
        channel, reply = self._open(Proxy, Open("proxy", rules, limits, credential=credential), [])
        channel.url = f"http://{credential}@127.0.0.1:{reply.port}"
        return channel

    @property
    def pid(self) -> int | None:
        """The process id of the gateway; `None` when there is none."""
        running = self._running
        return running.pid if running else None

    def close(self) -> None:
        """Ends it, and every attachment. The next use starts another one."""
        with self._lock:
            if self._running is not None and self._owner == os.getpid():
                _end(self._running)
            self._running = None

    def _open(self, kind: type[_ChannelT], order: Open, fds: list[int]) -> tuple[_ChannelT, Reply]:
        packet = _packet(order)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._send(packet, [theirs.fileno(), *fds])
            channel = kind(ours)
            return channel, channel.answer()
        except (OSError, msgspec.MsgspecError) as error:
            ours.close()
            raise EngineUnavailableError(f"the network gateway does not answer: {error}") from error
        except BaseException:
            ours.close()
            raise

    def _send(self, packet: bytes, fds: list[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]
        self._leave_the_parents()
        with self._lock:
            running = self._alive()
            try:
                running.control.sendmsg([packet], rights)
            except (BrokenPipeError, ConnectionError):  # it died a moment ago
                _end(running)
                self._running = None
                self._alive().control.sendmsg([packet], rights)

    def _leave_the_parents(self) -> None:
        if self._owner == os.getpid():
            return
        self._lock = threading.Lock()
        self._owner = os.getpid()
        if self._running is not None:
            self._running.control.close()
            self._running.forget()
            self._running = None

    def _alive(self) -> Child:
        if self._running is not None and self._running.poll() is not None:
            _end(self._running)
            self._running = None
        if self._running is None:
            self._running = self._started()
        return self._running

    def _started(self) -> Child:
        child = self._start(PROGRAM)
        child.control.settimeout(_TIMEOUT)
        try:
            said = child.control.recv(16)
        except OSError as error:
            said = str(error).encode()
        if said != b"ready":
            words = child.said() or said.decode(errors="replace") or "it said nothing"
            _end(child)
            raise EngineUnavailableError(f"the network gateway did not start: {words}")
        return child


def _packet(message: Open | Ask) -> bytes:
    packet = _encode(message)
    if len(packet) > MAX_PACKET:
        raise ValueError(f"the network rules are too many: they take {len(packet)} bytes, and {MAX_PACKET} is the most")
    return packet
