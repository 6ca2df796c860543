"""Whom the first bytes of a connection are for: the name in a TLS ClientHello (RFC 8446, RFC 6066), the Host of an HTTP/1 request."""

from __future__ import annotations

import re
from typing import Final

from ...policy import host_name

__all__ = ("MAX_HEAD", "Misread", "http_host", "is_tls", "tls_name")

MAX_HEAD: Final = 32 * 1024
"""Bytes in which the name must have been said."""

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z-]{0,31}) ([!-~]{1,16384}) HTTP/1\.[01]")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00\r\n]*)")
"""Blanks around the value are its reader's to take off: in here, they could be divided in too many ways."""
_ABSOLUTE: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/]+)(?::([0-9]{1,5}))?")


class Misread(ValueError):
    """The bytes are not what belongs on that port, or do not say one name. The text ends a sentence about the connection."""


def is_tls(data: bytes) -> bool:
    """Whether a connection that begins like this is TLS."""
    return data[:1] == bytes([_HANDSHAKE])


def tls_name(data: bytes) -> tuple[str | None] | None:
    """`None` when more bytes are needed; else the one server name, which may be `None`. Raises `Misread`."""
    hello = _hello(data)
    if hello is None:
        return None
    try:
        return (_server_name(hello),)
    except (IndexError, UnicodeDecodeError):
        raise Misread("does not begin as TLS should") from None


def _hello(data: bytes) -> bytes | None:
    """The ClientHello out of the records that carry it."""
    message = b""
    at = 0
    while True:
        if len(data) < at + 5:
            return _more(data)
        if data[at] != _HANDSHAKE or data[at + 1] != 3:
            raise Misread("does not begin as TLS should")
        length = int.from_bytes(data[at + 3 : at + 5])
        if not 0 < length <= 16384:
            raise Misread("does not begin as TLS should")
        part = data[at + 5 : at + 5 + length]
        message += part
        if message and message[0] != _CLIENT_HELLO:
            raise Misread("does not begin as TLS should")
        whole = 4 + int.from_bytes(message[1:4]) if len(message) >= 4 else MAX_HEAD
        if whole > MAX_HEAD and len(message) >= 4:
            raise Misread("begins with too long a greeting")
        if len(message) >= whole:
            return message[4:whole]
        if len(part) < length:
            return _more(data)
        at += 5 + length


def _more(data: bytes) -> None:
    if len(data) >= MAX_HEAD:
        raise Misread("begins with too long a greeting")


def _server_name(hello: bytes) -> str | None:
    at = 34  # version and random
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2])
    at += 1 + hello[at]
    if at >= len(hello):
        return None
    end = at + 2 + int.from_bytes(hello[at : at + 2])
    at += 2
    if end != len(hello):
        raise Misread("does not begin as TLS should")
    found: str | None = None
    seen: set[int] = set()
    while at < end:
        kind, length = int.from_bytes(hello[at : at + 2]), int.from_bytes(hello[at + 2 : at + 4])
        content = hello[at + 4 : at + 4 + length]
        at += 4 + length
        if len(content) != length or at > end or kind in seen:
            raise Misread("does not begin as TLS should")
        seen.add(kind)
        if kind == _ENCRYPTED_HELLO:
            raise Misread("hides whom it is for (an encrypted ClientHello)")
        if kind == _SERVER_NAME:
            found = _listed_name(content)
    return found


def _listed_name(content: bytes) -> str:
    length = int.from_bytes(content[3:5])
    # One entry of kind host_name (0): RFC 6066 forbids a second of a kind, and there is no other kind.
    if int.from_bytes(content[:2]) != len(content) - 2 or content[2] != 0 or length != len(content) - 5:
        raise Misread("does not say one name")
    try:
        return host_name(content[5:].decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        raise Misread("names what is no host") from None


def http_host(data: bytes, port: int) -> str | None:
    """The host of a request to `port`; `None` when more bytes are needed. Raises `Misread`."""
    head, end, _ = data.partition(b"\r\n\r\n")
    line, whole, _ = head.partition(b"\r\n")
    if data and not (b"A" <= data[:1] <= b"Z"):
        raise Misread("does not begin with an HTTP/1 request")
    match = _REQUEST_LINE.fullmatch(line)
    if not end and (match or not whole):
        if len(data) >= MAX_HEAD:
            raise Misread("begins with too long a request")
        return None
    if match is None or match[1] == b"PRI":
        raise Misread("does not begin with an HTTP/1 request")
    if match[1] == b"CONNECT":
        raise Misread("asks for a proxy, which there is none")
    said = [field[2].strip(b" \t") for raw in head.split(b"\r\n")[1:] if (field := _field(raw))[1].lower() == b"host"]
    if len(said) != 1:
        raise Misread("does not say one host")
    absolute = _ABSOLUTE.match(match[2])
    names = {_named(text, port) for text in (said[0], *([absolute[1]] if absolute else []))}
    if len(names) != 1:
        raise Misread("does not say one host")
    return names.pop()


def _field(raw: bytes) -> re.Match[bytes]:
    match = _FIELD.fullmatch(raw)
    if match is None:
        raise Misread("does not begin with an HTTP/1 request")
    return match


def _named(text: bytes, port: int) -> str:
    match = _HOST.fullmatch(text.decode("latin-1"))
    try:
        if match is None or int(match[2] or 80) != port:
            raise ValueError
        return host_name(match[1])
    except ValueError:
        raise Misread("names another host or port") from None
