"""One plain HTTP/1 request, read strictly and written anew (RFC 9112)."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from ....policy import NetworkRules
from ...urls import Url
from ..heads import Misread

__all__ = ("RequestHead", "answer", "parse_request", "response_status", "url_of")

_REQUEST_LINE: Final = re.compile(r"([A-Z][A-Z-]{0,31}) ([!-~]{1,16384}) HTTP/(1\.[01])")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00\r\n]*)")  # without blanks: see `heads`
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]")
_ORIGIN: Final = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_MAX_URL: Final = 8192
_HOP: Final = frozenset(
    {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "trailer", "upgrade"}
)
"""Fields that belong to one connection, not to the request (RFC 9110, 7.6.1)."""


@dataclasses.dataclass(slots=True)
class RequestHead:
    """A request's head, and the bytes behind it."""

    method: str
    target: str
    version: str
    fields: list[tuple[str, str]]
    rest: bytes

    def values(self, name: str) -> list[str]:
        """What the fields of that (lower-case) name say."""
        return [value for field, value in self.fields if field.lower() == name]

    @property
    def origin_target(self) -> str:
        """The target without scheme and host, as servers want it."""
        return _ORIGIN.sub("", self.target, count=1) or "/"

    @property
    def upgrades(self) -> bool:
        """Whether it asks for a WebSocket. No other protocol is let in by this door."""
        return [value.lower() for value in self.values("upgrade")] == ["websocket"]

    def forwarded(self) -> bytes:
        """The head for the server, behind which comes the body.

        The connection is for this request alone: what would be a further one, to whomever it is, has no reader.
        """
        upgrade = self.upgrades
        lines = [f"{self.method} {self.origin_target} HTTP/{self.version}"]
        lines += [f"{name}: {value}" for name, value in self.fields if name.lower() not in _HOP]
        lines += ["Upgrade: websocket", "Connection: Upgrade"] if upgrade else ["Connection: close"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_request(data: bytes) -> RequestHead:
    """Reads a head that is there as a whole. Raises `Misread` for what has two readings."""
    head, _, rest = data.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    fields = [_FIELD.fullmatch(text) for text in lines]
    if match is None or not all(fields):
        raise Misread("does not begin with an HTTP/1 request")
    said = [(field[1], field[2].strip(" \t")) for field in fields if field]
    request = RequestHead(match[1], match[2], match[3], said, rest)
    lengths, codings = request.values("content-length"), request.values("transfer-encoding")
    if len(lengths) + len(codings) > 1 or any(not re.fullmatch("[0-9]{1,18}", text) for text in lengths):
        raise Misread("does not say how long its body is")
    if any(text.lower() != "chunked" for text in codings):
        raise Misread("does not say how long its body is")
    return request


def url_of(request: RequestHead, rules: NetworkRules, scheme: str, host: str, port: int) -> tuple[str, Url]:
    """The path for the rules, and the URL. Raises `EgressDeniedError` for a URL that servers read in several ways.

    Registries have escaped slashes in their paths (`/@scope%2fname`): that matters only where a rule looks at paths.
    """
    authority = f"{'[' + host + ']' if ':' in host else host}:{port}"
    target = request.origin_target if request.origin_target.startswith("/") else "/"
    if any(rule.path != "/" for rule in (*rules.allow, *rules.deny)):
        url = Url.parse(f"{scheme}://{authority}{target}", max_length=_MAX_URL)
        request.target = url.target  # what was checked is what is asked for
        return url.path, url
    return target.partition("?")[0], Url.parse(f"{scheme}://{authority}/", max_length=_MAX_URL)


def response_status(begin: bytes) -> int | None:
    """The status that a connection begins to say; 0 for what is no answer, `None` when more bytes are needed, or a final one."""
    match = _STATUS.match(begin)
    if match is None:
        return None if len(begin) < 13 else 0
    status = int(match[1])
    return None if 100 <= status < 200 and status != 101 else status


def answer(status: str, text: str, *fields: str) -> bytes:
    """A whole answer of the gateway's own."""
    body = text.encode() + b"\n"
    more = "".join(f"{field}\r\n" for field in fields)
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n{more}\r\n".encode() + body
