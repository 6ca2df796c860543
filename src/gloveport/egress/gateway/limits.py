"""What one attachment may use of the gateway."""

from __future__ import annotations

import dataclasses
from typing import Final

__all__ = ("DEFAULTS", "GatewayLimits")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of one jail's network. Times are seconds."""

    connections: int = 128
    """At the same time. Further ones are refused."""
    transferred_bytes: int = 8 * 1024**3
    """Over the attachment's life, both directions together. Then every connection ends."""
    names: int = 4096
    """Names that are asked for, over the attachment's life."""
    head_timeout: float = 10.0
    """Until a connection to an HTTP or TLS port has said whom it is for."""
    dial_timeout: float = 20.0
    """Until a name is resolved and a connection made."""
    idle_timeout: float = 600.0
    """Without a byte in either direction."""


DEFAULTS: Final = GatewayLimits()
