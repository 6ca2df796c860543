"""This process's network gateway."""

from __future__ import annotations

import atexit

from ..egress.gateway import Gateway
from ..engines.jail.child import HelperProcess

__all__ = ("gateway",)

_gateway = Gateway(HelperProcess)
atexit.register(_gateway.close)


def gateway() -> Gateway:
    """The one of this process. It is started when something is first attached to it."""
    return _gateway
