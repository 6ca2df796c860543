"""HTTP/1.1 between a box and a host that gets a secret: each request is read, decided about, given its values, and sent on.

Imported only where a box has secrets: TLS and h11 are memory.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

import h11

from ....errors import EgressDeniedError, GloveportError, HttpFetchError
from ....policy import host_name
from ...credentials import spellings
from ...evaluator import Destination
from ..heads import Misread
from ..splicing import reset
from .journal import NetworkLogRow
from .requests import RequestHead, answer, url_of
from .streams import PlainStream, Stream, TlsStream, client_context, server_context

if TYPE_CHECKING:
    from .connections import BoxConnections

__all__ = ("Opened", "Searched")

_MAX_HEAD: Final = 64 * 1024
_BODY_AFTER_ANSWER: Final = 1.0
_ASKED_HOP: Final = frozenset(
    {
        "connection",
        "proxy-connection",
        "proxy-authorization",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "accept-encoding",
    }
)
_ANSWERED_HOP: Final = frozenset({"connection", "proxy-connection", "keep-alive", "trailer", "upgrade", "alt-svc"})
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/]+)(?::([0-9]{1,5}))?")


class RepeatedSecretError(EgressDeniedError):
    """An answer has the value of a secret in it."""


class Searched:
    """Looks for values in what comes in pieces. Holds back only what could be the beginning of one."""

    def __init__(self, values: tuple[str, ...]) -> None:
        self._needles = tuple({needle for value in values for needle in (*spellings(value), *_within_base64(value))})
        self._longest = max(map(len, self._needles), default=0)
        self._held = b""

    def passed(self, data: bytes) -> bytes:
        """What may go on now. Raises `RepeatedSecretError`."""
        whole = self._held + data
        if any(needle in whole for needle in self._needles):
            raise RepeatedSecretError(
                "blocked by policy: the answer repeats a secret of this sandbox, and is withheld."
            )
        kept = self._open_end(whole)
        self._held = whole[len(whole) - kept :]
        return whole[: len(whole) - kept]

    def rest(self) -> bytes:
        """What was held back, at the end."""
        held, self._held = self._held, b""
        return held

    def _open_end(self, whole: bytes) -> int:
        tail = whole[-(self._longest - 1) :] if self._longest > 1 else b""
        for size in range(len(tail), 0, -1):
            if any(needle.startswith(tail[-size:]) for needle in self._needles):
                return size
        return 0


def _within_base64(value: str) -> list[bytes]:
    """What the value is in the middle of a base64 text, as of Basic credentials: by where it begins in a group of three bytes."""
    data = value.encode()
    return [
        base64.b64encode(bytes(shift) + data)[-(-shift * 8 // 6) : (shift + len(data)) * 8 // 6] for shift in range(3)
    ]


class Opened:
    """Ends TLS for a box's secrets."""

    def __init__(self, certificate: str) -> None:
        self._certificate = server_context(certificate) if certificate else None
        self._authorities: ssl.SSLContext | None = None

    async def serve(
        self,
        connections: BoxConnections,
        sock: socket.socket,
        destination: Destination,
        head: bytes,
        row: NetworkLogRow,
    ) -> None:
        """Serves one connection to the end."""
        connections.journal.write(row)
        client: Stream
        if destination.scheme == "http":
            client = PlainStream(sock, head)
        else:
            assert self._certificate is not None
            client = TlsStream(sock, self._certificate, already=head)
            try:
                async with asyncio.timeout(connections.limits.head_timeout):
                    await client.handshake()
            except (OSError, TimeoutError) as error:  # `SSLError` is an `OSError`
                row.verdict = "failed"
                row.reason = (
                    f"TLS with the program failed: {_said(error)}. It has to trust the authority in SSL_CERT_FILE."
                )
                connections.policy.failed(destination.host, destination.port, row.reason)
                return
        talk = _Talk(self, connections, client, destination, row)
        try:
            await talk.run()
        finally:
            talk.close()
            row.bytes_out, row.bytes_in = client.received, client.sent
            await client.end()

    def authorities(self) -> ssl.SSLContext:
        """Whom servers have to be known to."""
        if self._authorities is None:
            self._authorities = client_context()
        return self._authorities


class _Talk:
    """One connection's requests and answers."""

    def __init__(
        self, opened: Opened, connections: BoxConnections, client: Stream, destination: Destination, row: NetworkLogRow
    ) -> None:
        self._opened, self._connections, self._row = opened, connections, row
        self._client, self._destination = client, destination
        self._guest = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._server = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._upstream: Stream | None = None
        self._sock: socket.socket | None = None

    def close(self) -> None:
        if self._sock is not None:
            reset(self._sock)
            self._sock = None

    async def run(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, h11.ProtocolError):
            while True:
                event = await self._next(self._guest, self._client)
                if not isinstance(event, h11.Request) or not await self._one(event):
                    return
                if self._guest.our_state is not h11.DONE or self._guest.their_state is not h11.DONE:
                    return
                self._guest.start_next_cycle()
                if self._server.our_state is h11.DONE and self._server.their_state is h11.DONE:
                    self._server.start_next_cycle()
                else:
                    self._forget()

    async def _one(self, event: h11.Request) -> bool:
        """Answers a request. Gives whether the connection may have another one."""
        where = self._destination
        row = self._connections.journal.begin(
            kind="request", host=where.host, port=where.port, scheme=where.scheme, method=event.method.decode("latin-1")
        )
        row.dst_ip = self._row.dst_ip
        try:
            request, full = self._allowed(event, row)
            try:
                await self._connect(full, row)
                await self._passed_on(request, row)
            except RepeatedSecretError as error:
                row.violation = True
                raise EgressDeniedError(str(error)) from None
        except (GloveportError, Misread) as error:
            text = str(error)
            failed = isinstance(error, HttpFetchError)
            row.verdict, row.reason = "failed" if failed else "blocked", text
            secret, violation = self._connections.interception.fault(error)
            row.secret, row.violation = secret or row.secret, violation or row.violation
            self._connections.policy.failed(where.host, where.port, text)
            if self._guest.our_state is h11.SEND_RESPONSE:
                row.status = 502 if failed else 403
                self._connections.journal.write(row)
                await self._client.send(answer("502 Bad Gateway" if failed else "403 Forbidden", text))
            return False
        finally:
            self._connections.journal.end(row)
        return True

    def _allowed(self, event: h11.Request, row: NetworkLogRow) -> tuple[h11.Request, Destination]:
        """The request as it is sent, and where to. Raises `EgressDeniedError`, `Misread`."""
        where, interception = self._destination, self._connections.interception
        # As they were spelled: there are servers that look for one spelling.
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers.raw_items()]
        if [_named(value, where) for name, value in fields if name.lower() == "host"] != [where.host]:
            raise EgressDeniedError(f"blocked by policy: the request names another host than {where.host}")
        head = RequestHead(row.method, event.target.decode("latin-1"), "1.1", fields, b"")
        policy = self._connections.policy
        path, _ = url_of(head, policy.evaluator.rules, where.scheme, where.host, where.port)
        row.path = path[:512]
        full = Destination(where.host, where.port, where.scheme, row.method, path)
        verdict = policy.permit(full)
        if not verdict.allowed:
            raise EgressDeniedError(policy.told(full, verdict))
        row.match_rule = verdict.rule
        self._connections.asks(full)
        interception.refuse(full, [head.target])
        kept = [(name, value) for name, value in fields if name.lower() not in _ASKED_HOP]
        made, row.secret = interception.swapped(full, kept)
        # What is compressed could have the value in it unseen.
        made.append(("Accept-Encoding", "identity"))
        return h11.Request(method=row.method, target=head.origin_target, headers=made), full

    async def _connect(self, destination: Destination, row: NetworkLogRow) -> None:
        if self._upstream is not None:
            return
        sock = await self._connections.reach(destination, row)
        if sock is None:
            raise (EgressDeniedError if row.verdict == "blocked" else HttpFetchError)(row.reason)
        self._sock = sock
        self._row.dst_ip = row.dst_ip
        if self._destination.scheme == "http":
            self._upstream = PlainStream(sock)
            return
        stream = TlsStream(sock, self._opened.authorities(), name=self._destination.host)
        try:
            async with asyncio.timeout(self._connections.limits.dial_timeout):
                await stream.handshake()
        except (OSError, TimeoutError) as error:
            self._forget()
            raise HttpFetchError(f"TLS with {self._destination.host} failed: {_said(error)}") from None
        self._upstream = stream

    def _forget(self) -> None:
        self.close()
        self._upstream = None
        self._server = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)

    async def _passed_on(self, request: h11.Request, row: NetworkLogRow) -> None:
        upstream = self._upstream
        assert upstream is not None
        await upstream.send(self._server.send(request) or b"")
        body = asyncio.create_task(self._body(upstream, row))
        try:
            await self._answered(upstream, row)
            # An answer that came at once may have left it no turn; one before the end of a request ends the connection.
            await asyncio.wait([body], timeout=_BODY_AFTER_ANSWER)
            if body.done():
                body.result()
        except h11.ProtocolError as error:
            raise HttpFetchError(f"{self._destination.host} does not speak HTTP as it should: {error}") from None
        finally:
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)

    async def _body(self, upstream: Stream, row: NetworkLogRow) -> None:
        while True:
            event = await self._next(self._guest, self._client)
            if isinstance(event, h11.Data):
                row.bytes_out += len(event.data)
                await upstream.send(self._server.send(h11.Data(data=bytes(event.data))) or b"")
            else:
                if isinstance(event, h11.EndOfMessage):
                    await upstream.send(self._server.send(h11.EndOfMessage()) or b"")
                return

    async def _answered(self, upstream: Stream, row: NetworkLogRow) -> None:
        searched = Searched(self._connections.interception.values)
        while True:
            event = await self._next(self._server, upstream)
            if isinstance(event, (h11.Response, h11.InformationalResponse)):
                fields = [item for item in event.headers.raw_items() if item[0].decode().lower() not in _ANSWERED_HOP]
                Searched(self._connections.interception.values).passed(
                    b"\n".join(name + b": " + value for name, value in fields) + b" " + bytes(event.reason)
                )
                row.status = event.status_code
                self._connections.journal.write(row)
                made = type(event)(status_code=event.status_code, headers=fields, reason=event.reason)
                await self._told(made)
            elif isinstance(event, h11.Data):
                row.bytes_in += len(event.data)
                if data := searched.passed(bytes(event.data)):
                    await self._told(h11.Data(data=data))
            elif isinstance(event, h11.EndOfMessage):
                if data := searched.rest():
                    await self._told(h11.Data(data=data))
                await self._told(h11.EndOfMessage())
                return
            else:
                raise HttpFetchError(f"{self._destination.host} ended the connection without an answer")

    async def _told(self, event: Any) -> None:
        data = cast("bytes | None", self._guest.send(event))
        if data:
            await self._client.send(data)

    async def _next(self, connection: h11.Connection, stream: Stream) -> Any:
        while True:
            event = connection.next_event()
            if event is h11.PAUSED:
                return event
            if event is not h11.NEED_DATA:
                return event
            async with asyncio.timeout(self._connections.limits.idle_timeout):
                connection.receive_data(await stream.receive())


def _named(value: str, where: Destination) -> str:
    match = _HOST.fullmatch(value)
    default = 80 if where.scheme == "http" else 443
    try:
        return host_name(match[1]) if match and int(match[2] or default) == where.port else ""
    except ValueError:
        return ""


def _said(error: BaseException) -> str:
    """What is wrong, without what the other side may have written."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid ({error.verify_code})"
    return str(getattr(error, "reason", "") or type(error).__name__)
