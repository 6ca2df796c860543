"""Secrets: values that are put in here, for the hosts they are meant for, so that the box never has them.

The box has placeholders. For the hosts that a secret names, TLS ends here, with a certificate of an authority of this box's own, and
requests are read (`exchange`); their header fields get the value, also within Basic credentials. To any other host, as far as what is
sent there can be read, a placeholder is refused: somebody meant to send a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ....errors import EgressDeniedError
from ...evaluator import Destination
from .journal import NetworkLogRow
from .plans import BoxSecret, BoxSecrets
from .requests import RequestHead

if TYPE_CHECKING:
    from .connections import BoxConnections
    from .exchange import Opened

__all__ = ("Interception", "PlaceholderError")

_PLACES: Final = re.compile(r"(?:(https?)://)?(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+)(?::([0-9]{1,5}))?")


class PlaceholderError(EgressDeniedError):
    """A placeholder where it may not go. `secret` is whose."""

    def __init__(self, secret: str, host: str) -> None:
        super().__init__(
            f"blocked by policy: the placeholder of the secret {secret!r} is not for {host}. Do not send it to other hosts."
        )
        self.secret = secret


class Interception:
    """The secrets of one box."""

    def __init__(self) -> None:
        self._secrets: tuple[BoxSecret, ...] = ()
        self._opened: Opened | None = None

    def load(self, secrets: BoxSecrets) -> None:
        """Takes other secrets, for requests from now on. Raises `ValueError` for a certificate that is none."""
        opened = None
        if secrets.secrets:
            from .exchange import Opened  # TLS and HTTP take 5 MiB: only where a box has secrets

            opened = Opened(secrets.certificate)
        self._secrets, self._opened = secrets.secrets, opened

    @property
    def values(self) -> tuple[str, ...]:
        """What no answer may bring to the box."""
        return tuple(secret.value for secret in self._secrets)

    def opens(self, destination: Destination) -> bool:
        """Whether TLS to that host ends here."""
        return self._opened is not None and any(_is_for(secret, destination) for secret in self._secrets)

    async def serve(
        self,
        connections: BoxConnections,
        sock: socket.socket,
        destination: Destination,
        head: bytes,
        row: NetworkLogRow,
    ) -> None:
        """Serves a connection to such a host, which began with `head`."""
        assert self._opened is not None
        await self._opened.serve(connections, sock, destination, head, row)

    def plain(self, destination: Destination, request: RequestHead) -> None:
        """Looks at a plain request for a host that gets no secret. Raises `PlaceholderError`."""
        self.swapped(destination, request.fields)
        self.refuse(destination, [request.target])

    def swapped(self, destination: Destination, fields: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], str]:
        """Header fields with the values in them, and the name of the last secret that was put in. Raises `PlaceholderError`."""
        used = ""
        made: list[tuple[str, str]] = []
        for name, value in fields:
            text = value
            for secret in self._secrets:
                if secret.placeholder in value or secret.placeholder in _basic(value):
                    if not _is_for(secret, destination):
                        raise PlaceholderError(secret.name, f"{destination.host}:{destination.port}")
                    text, used = _put(text, secret), secret.name
            made.append((name, text))
        return made, used

    def refuse(self, destination: Destination, texts: Iterable[str]) -> None:
        """Raises `PlaceholderError` for a placeholder in what is no header field: URLs end up in the logs of servers."""
        for text in texts:
            for secret in self._secrets:
                if secret.placeholder in text:
                    raise PlaceholderError(
                        secret.name, f"{destination.host}:{destination.port} outside of header fields"
                    )

    @staticmethod
    def fault(error: BaseException) -> tuple[str, bool]:
        """The secret that an error is about, and whether it was a violation."""
        return (error.secret, True) if isinstance(error, PlaceholderError) else ("", False)


def _is_for(secret: BoxSecret, destination: Destination) -> bool:
    for place in secret.hosts:
        match = _PLACES.fullmatch(place)
        if match is None:
            continue
        scheme = match[1] or "https"
        port = int(match[3] or (80 if scheme == "http" else 443))
        if scheme != destination.scheme or port != destination.port:
            continue
        host = match[2].strip("[]").lower()
        one_label = destination.host.partition(".")[2]
        if host == destination.host or (host.startswith("*.") and one_label == host[2:]):
            return True
    return False


def _basic(value: str) -> str:
    scheme, _, rest = value.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _put(value: str, secret: BoxSecret) -> str:
    pair = _basic(value)
    if secret.placeholder in pair:
        scheme = value.partition(" ")[0]
        return f"{scheme} {base64.b64encode(pair.replace(secret.placeholder, secret.value).encode()).decode()}"
    return value.replace(secret.placeholder, secret.value)
