"""What the host and its gateway say to each other: one JSON object for each packet of a SOCK_SEQPACKET socket.

The gateway's own socket brings `Open` with descriptors: first the socket of the new attachment, on which everything else about it goes,
then what it serves. The end of that socket is the end of the attachment.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ...policy import NetworkRules
from ..evaluator import Decision
from .limits import GatewayLimits

__all__ = ("MAX_DESCRIPTORS", "MAX_PACKET", "Ask", "Open", "Reply")

MAX_PACKET = 192 * 1024
"""Below what a socket takes as one packet by default (net.core.wmem_default is 208 KiB)."""
MAX_DESCRIPTORS = 128


class Open(msgspec.Struct, omit_defaults=True):
    """A new attachment."""

    kind: Literal["jail", "proxy"]
    rules: NetworkRules
    limits: GatewayLimits
    watched: bool = False
    """Whether the third descriptor is that of a watcher."""
    credential: str = ""
    """User and password of a proxy, as `user:password`."""


class Ask(msgspec.Struct, omit_defaults=True):
    """A question about an attachment."""

    what: Literal["decisions", "rules", "why", "close"]
    since: int = 0
    rules: NetworkRules | None = None
    host: str = ""
    port: int = 0


class Reply(msgspec.Struct, omit_defaults=True):
    """The answer to `Open` and to every `Ask`."""

    error: str = ""
    port: int = 0
    """Of a proxy."""
    count: int = 0
    decisions: list[Decision] = []
    why: str = ""
