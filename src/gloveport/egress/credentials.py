"""Secrets that are sent to one origin, and that no answer may bring to the guest."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from ..errors import EgressDeniedError, HttpFetchError
from .urls import Url

__all__ = ("Credentials", "FieldPairs", "check_fields", "spellings")

FieldPairs = tuple[tuple[str, str], ...]
SHORTEST: Final = 8
"""Characters that a secret has at least: what is shorter cannot be told apart from other text."""

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
OF_THE_CONNECTION: Final = frozenset(
    {
        *(
            "accept-encoding",
            "connection",
            "content-length",
            "expect",
            "host",
            "http2-settings",
            "keep-alive",
            "te",
            "upgrade",
        ),
        *("proxy-authorization", "proxy-connection", "trailer", "transfer-encoding", "via"),
    }
)
"""What the request itself decides."""


def check_fields(where: str, fields: Mapping[str, str]) -> FieldPairs:
    """Header fields as lower-case names and values. Raises `ValueError` for what is no field, or not the caller's to set."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`{where}` must map names to texts")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"`{where}` has a header with a name or value that HTTP does not allow")
        if name.lower() in OF_THE_CONNECTION:
            raise ValueError(f"`{where}` may not set `{name.lower()}`: the request itself decides it")
        pairs.append((name.lower(), value))
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError(f"`{where}` has the same header twice")
    return tuple(pairs)


class Credentials:
    """Header fields by origin, and the search for them in answers.

    Args:
        given: by host, `host:port` or origin (without a scheme: `https`); a text is an `Authorization` header.
        secret: further values to look for.
    """

    def __init__(self, given: Mapping[str, Mapping[str, str] | str], secret: Iterable[str] = ()) -> None:
        self._by_origin: dict[str, FieldPairs] = {}
        for key, value in given.items():
            url = _origin(key)
            fields = check_fields("credentials", {"authorization": value} if isinstance(value, str) else value)
            if any(len(text) < SHORTEST for _, text in fields):
                raise ValueError(
                    f"a credential for {key} is shorter than {SHORTEST} characters: it could not be found in an answer. "
                    "What is not secret belongs into `headers`"
                )
            if url.origin in self._by_origin:
                raise ValueError(f"`credentials` names {url.origin} twice")
            self._by_origin[url.origin] = fields
        values = [text for fields in self._by_origin.values() for _, text in fields]
        self._needles = tuple({needle for text in (*values, *secret) for needle in spellings(text)})
        self.longest = max(map(len, self._needles), default=0)
        """Bytes of the longest spelling."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Whom they are for."""
        return tuple(self._by_origin)

    @property
    def names(self) -> frozenset[str]:
        """The header names, which nobody else may set."""
        return frozenset(name for fields in self._by_origin.values() for name, _ in fields)

    def for_origin(self, url: Url) -> FieldPairs:
        """The fields for a request there."""
        return self._by_origin.get(url.origin, ())

    def check(self, data: bytes) -> None:
        """Raises `HttpFetchError` if a secret is in what a server sent, in a usual spelling."""
        if any(needle in data for needle in self._needles):
            raise HttpFetchError("the answer repeats a credential of the host application, and is withheld")


def _origin(key: str) -> Url:
    try:
        url = Url.parse(key if "://" in key else f"https://{key}")
    except EgressDeniedError as error:
        raise ValueError(f"`credentials` has the key {key!r}, which is no host or origin: {error}") from None
    if url.target != "/":
        raise ValueError(f"`credentials` are for hosts or origins, not for paths: {key!r}")
    return url


def spellings(text: str) -> set[bytes]:
    """A header's value and what is secret in it, as they are and as JSON, URLs and base64 have them."""
    plain = {text}
    scheme, space, rest = text.partition(" ")
    if space:
        plain.add(rest.strip())
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(rest, validate=True).decode("utf-8")
            plain |= {pair, pair.partition(":")[2]}
        except (binascii.Error, UnicodeDecodeError):
            pass
    found: set[bytes] = set()
    for value in plain:
        if len(value) >= SHORTEST:
            found |= {
                value.encode(),
                quote(value, safe="").encode(),
                quote_plus(value).encode(),
                json.dumps(value)[1:-1].encode(),
            }
            found.add(base64.b64encode(value.encode()).rstrip(b"="))
            found.add(base64.urlsafe_b64encode(value.encode()).rstrip(b"="))
    return found
