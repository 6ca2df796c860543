"""One reading of a URL, or none.

Programs differ in how they read odd URLs; whoever checks one and hands it to another program has checked something else. So what
has more than one reading is refused, and the request is made from the parts that were checked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urljoin

from ..errors import EgressDeniedError
from ..policy import host_name

__all__ = ("DEFAULT_PORTS", "Url", "denied")

DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?"
)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[1-9][0-9]{0,4}))?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPED_SYNTAX: Final = re.compile(r"%(?:25)*(?:2[EF]|5C|[01][0-9A-F]|7F|C[01])", re.IGNORECASE)
"""A dot, slash, backslash or control character, escaped once or several times, or in UTF-8 that is longer than it may be."""
_DOTS: Final = re.compile(r"/\.\.?(?:[/;]|$)")
_KEPT: Final = "!$%&()*+,-./:;=?@[]_~"
"""What stays as it is in a path or query; the rest is percent-encoded (the WHATWG URL standard's sets, or stricter)."""


def denied(reason: str) -> EgressDeniedError:
    """A refusal for the model."""
    return EgressDeniedError(f"blocked by policy: {reason}")


@dataclasses.dataclass(frozen=True, slots=True)
class Url:
    """A URL in its one spelling."""

    scheme: str
    host: str
    """As `policy.host_name` gives it."""
    port: int
    path: str
    query: str | None

    @classmethod
    def parse(cls, text: str, *, schemes: tuple[str, ...] = ("http", "https"), max_length: int = 2048) -> Url:
        """Reads an absolute URL.

        Raises `EgressDeniedError` for another scheme, more than `max_length` characters (also once it is encoded), user
        information, control characters, backslashes, white space at an end, dot segments and escaped separators in the path (also
        escaped twice), escapes that are none, and hosts that `host_name` refuses. The fragment is dropped.
        """
        if len(text) > max_length:
            raise denied(f"the URL is longer than {max_length} characters")
        _check_characters(text)
        match = _PARTS.fullmatch(text)
        if match is None:
            raise denied("that is no absolute URL: write `https://host/path`")
        scheme = match["scheme"].lower()
        if scheme not in schemes or scheme not in DEFAULT_PORTS:
            raise denied(f"the scheme must be {' or '.join(schemes)}")
        host, port = _host_and_port(match["authority"])
        url = cls(scheme, host, port or DEFAULT_PORTS[scheme], _path(match["path"]), _encoded(match["query"]))
        if len(str(url)) > max_length:
            raise denied(f"the URL is longer than {max_length} characters, once it is encoded")
        return url

    def join(self, location: str, *, schemes: tuple[str, ...], max_length: int) -> Url:
        """Where a `Location` leads from here, by the same rules (relative dot segments are resolved)."""
        if len(location) > max_length:
            raise denied(f"the URL is longer than {max_length} characters")
        _check_characters(location)
        if location.startswith("///"):  # a path for Python, a host for browsers
            raise denied("the address that the server names has several readings")
        try:
            joined = urljoin(str(self), location)
        except ValueError:
            raise denied("the address that the server names is no URL") from None
        return Url.parse(joined, schemes=schemes, max_length=max_length)

    @property
    def authority(self) -> str:
        """Host and port as in a `Host` header: the port only if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def target(self) -> str:
        """Path and query, as in a request line."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    def __str__(self) -> str:
        return self.origin + self.target


def _check_characters(text: str) -> None:
    if text != text.strip() or not text:
        raise denied("the URL is empty, or has white space at an end")
    if _CONTROL.search(text):
        raise denied("the URL has control characters, or half of a surrogate pair")
    if "\\" in text.partition("?")[0].partition("#")[0]:
        raise denied("the URL has a backslash")


def _host_and_port(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise denied("a URL may not hold a user name or password")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise denied("the URL's host or port cannot be read")
    port = int(match["port"]) if match["port"] else None
    if port is not None and port > 65535:
        raise denied("the URL's port is above 65535")
    try:
        return host_name(match["host"]), port
    except ValueError as error:
        raise denied(f"the URL's host has no single reading ({error})") from None


def _path(text: str) -> str:
    path = _encoded(text or "/") or "/"

    def plain(match: re.Match[str]) -> str:
        if match[1] is None:
            raise denied("the URL's path has a `%` without two hexadecimal digits")
        byte = int(match[1], 16)
        return chr(byte) if byte in _UNRESERVED and byte != 0x2E else f"%{match[1].upper()}"

    path = _ESCAPE.sub(plain, path)
    if _ESCAPED_SYNTAX.search(path):
        raise denied("the URL's path has an escaped dot, slash, backslash or control character")
    if _DOTS.search(path):
        raise denied("the URL's path has dot segments")
    return path


def _encoded(text: str | None) -> str | None:
    return None if text is None else quote(text, safe=_KEPT)
