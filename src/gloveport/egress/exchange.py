"""A request with its redirects, as a generator without I/O: it asks for look-ups, connections and bytes.

h11 reads and writes HTTP/1.1: it has no dependency and does no I/O, so that whoever drives it decides where bytes come from.
`http.client` opens its own connections and reads lines without a deadline; httpx brings a pool, proxies and redirects of its own.
One connection for one request: nothing of an answer can be taken for the next.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Generator
from typing import Any, Final, TypeVar
from urllib.parse import unquote_plus

import h11

from ..errors import EgressDeniedError, HttpFetchError
from .credentials import FieldPairs
from .evaluator import Destination, Vetted, refusal
from .options import FetchOptions
from .urls import Url

__all__ = ("Answer", "Command", "Dial", "Receive", "Request", "Resolve", "Send", "Steps", "fetch_steps")

_MAX_HEAD: Final = 64 * 1024
_MAX_INTERIM: Final = 8
"""1xx responses before the answer."""
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_OF_A_BODY: Final = frozenset({"content-type", "content-language", "content-encoding", "content-location"})


@dataclasses.dataclass(frozen=True, slots=True)
class Resolve:
    """Give the addresses of a name."""

    host: str
    port: int


@dataclasses.dataclass(frozen=True, slots=True)
class Dial:
    """Close the connection that there is, and make this one."""

    vetted: Vetted

    @property
    def tls(self) -> bool:
        """Whether it speaks TLS."""
        return self.vetted.destination.scheme == "https"


@dataclasses.dataclass(frozen=True, slots=True)
class Send:
    """Send bytes."""

    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Receive:
    """Give bytes that arrive; empty at the end of the stream."""


Command = Resolve | Dial | Send | Receive
T = TypeVar("T")
Steps = Generator[Command, Any, T]


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What is sent."""

    method: str
    url: Url
    fields: FieldPairs
    """Of the guest: checked."""
    body: bytes | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    url: Url
    status: int
    fields: tuple[tuple[str, str], ...]
    """All of them, lower-case."""
    body: bytes
    truncated: bool


def fetch_steps(options: FetchOptions, request: Request) -> Steps[Answer]:
    """The request and what it is redirected to. Raises `EgressDeniedError` and `HttpFetchError`."""
    at_home = True  # nothing of the host application follows a redirect to another origin, also not on the way back
    for _ in range(options.max_redirects + 1):
        connection, response = yield from _answered(options, request, at_home=at_home)
        location = _location(options, response)
        if location is None:
            return (yield from _answer(options, request.url, connection, response))
        following = _redirected(options, request, response.status_code, location)
        at_home = at_home and following.url.origin == request.url.origin
        request = following
    raise HttpFetchError(f"more than {options.max_redirects} redirects")


# ── one request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _answered(options: FetchOptions, request: Request, *, at_home: bool) -> Steps[tuple[h11.Connection, h11.Response]]:
    """Decide, resolve, decide again, connect, send; the head of the answer."""
    url = request.url
    destination = Destination.of(url, request.method)
    _check_query(options, url, destination)
    verdict = options.evaluator.evaluate(destination)
    if not verdict.allowed:
        raise refusal(verdict)
    addresses = (url.host,) if _is_address(url.host) else (yield Resolve(url.host, url.port))
    vetted = options.evaluator.vet(destination, addresses)
    yield Dial(vetted)
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
    yield Send(_sent(connection, request, _fields(options, request, at_home=at_home)))
    for _ in range(_MAX_INTERIM):
        event = yield from _next(connection)
        if isinstance(event, h11.Response):
            return connection, event
        if not isinstance(event, h11.InformationalResponse):
            break
    raise HttpFetchError(f"{url.host} does not speak HTTP as it should")


def _fields(options: FetchOptions, request: Request, *, at_home: bool) -> FieldPairs:
    """All fields of a request. Those of the application win over the guest's."""
    fields = {"user-agent": options.user_agent, **dict(request.fields)}
    if at_home:
        fields |= dict(options.headers)
        fields |= dict(options.credentials.for_origin(request.url))
    fields |= {"host": request.url.authority, "connection": "close", "accept-encoding": "identity"}
    fields.setdefault("accept", "*/*")
    if request.body is not None:
        fields["content-length"] = str(len(request.body))
    return tuple(fields.items())


def _sent(connection: h11.Connection, request: Request, fields: FieldPairs) -> bytes:
    head = h11.Request(method=request.method, target=request.url.target, headers=list(fields))
    parts = [connection.send(head)]
    if request.body:
        parts.append(connection.send(h11.Data(data=request.body)))
    parts.append(connection.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)


def _next(connection: h11.Connection) -> Steps[Any]:
    while True:
        try:
            event = connection.next_event()
            if event is not h11.NEED_DATA:
                return event
            connection.receive_data((yield Receive()))
        except h11.RemoteProtocolError:
            raise HttpFetchError("the server broke off, or does not speak HTTP as it should") from None


def _answer(options: FetchOptions, url: Url, connection: h11.Connection, response: h11.Response) -> Steps[Answer]:
    """The answer with its body, of which no more is read than may be kept."""
    fields = tuple((name.decode("ascii").lower(), value.decode("latin-1")) for name, value in response.headers)
    if any(name == "content-encoding" and value.strip().lower() != "identity" for name, value in fields):
        raise HttpFetchError("the server compressed its answer although it was told not to")
    most = options.max_response_bytes
    enough = most + options.credentials.longest  # a credential that begins within what is kept must be seen whole
    body = bytearray()
    while len(body) <= enough:
        event = yield from _next(connection)
        if not isinstance(event, h11.Data):
            break
        body += event.data
    truncated = len(body) > most
    if truncated and options.overflow == "refuse":
        raise HttpFetchError(f"the answer is larger than {most} bytes")
    data = bytes(body[:enough])  # what came beside it decides nothing
    options.credentials.check(data)
    return Answer(url, response.status_code, fields, data[:most], truncated)


# ── redirects ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _location(options: FetchOptions, response: h11.Response) -> str | None:
    """Where an answer leads, if that is to be followed."""
    if response.status_code not in _REDIRECTS or options.redirects == "never":
        return None
    locations = [value for name, value in response.headers if name == b"location"]
    if not locations:
        return None
    if len(locations) > 1:
        raise HttpFetchError("the server names several places to go on")
    options.credentials.check(locations[0])
    try:
        return locations[0].decode("utf-8")
    except UnicodeDecodeError:
        raise HttpFetchError("the server redirects to what is no URL") from None


def _redirected(options: FetchOptions, request: Request, status: int, location: str) -> Request:
    """The request that follows (Fetch standard, "HTTP-redirect fetch"); the next hop decides about it as about the first."""
    try:
        url = request.url.join(location, schemes=options.schemes, max_length=options.max_url_length)
        if request.url.scheme == "https" and url.scheme != "https":
            raise _refused(options, request, url, "the server redirects from https to http")
        if options.redirects == "same-origin" and url.origin != request.url.origin:
            raise _refused(
                options,
                request,
                url,
                f"the server redirects to another origin, {url.origin}: fetch that itself if it is allowed",
            )
    except EgressDeniedError as error:
        raise EgressDeniedError(f"{error} (a redirect by {request.url.host})") from None
    method, body, fields = request.method, request.body, request.fields
    if (status in (301, 302) and method == "POST") or (status == 303 and method not in ("GET", "HEAD")):
        method, body = "GET", None
        fields = tuple((name, value) for name, value in fields if name not in _OF_A_BODY)
    return Request(method, url, fields, body)


def _refused(options: FetchOptions, request: Request, url: Url, reason: str) -> EgressDeniedError:
    return options.evaluator.refuse(Destination.of(url, request.method), reason)


# ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_query(options: FetchOptions, url: Url, destination: Destination) -> None:
    if options.query == "allow" or not url.query:
        return
    if options.query == "deny":
        raise options.evaluator.refuse(destination, "the URL may not have a query")
    for part in url.query.split("&"):
        name = unquote_plus(part.partition("=")[0])
        if part and name not in options.query:
            names = ", ".join(options.query)
            raise options.evaluator.refuse(destination, f"the URL's query may only have {names}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
