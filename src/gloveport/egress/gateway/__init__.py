"""The one way from a jail's network to the world: a process that decides about every connection and carries those it allows.

A jailed program is in a network namespace where every address leads to sockets that the host holds (`engines.jail.network`). The
host hands them to its gateway, a process of its own, as what arrives there is hostile: it must not be parsed in the application.

`names` and `dns` answer every question for a name with an address that stands for it, so that a connection tells which name was
meant. `attachment` takes connections, `policy` decides, `heads` reads whom the first bytes are for, `splicing` carries the rest.
`watching` opens ports as they are asked for. `proxy` is the same policy for trusted programs that speak to an HTTP proxy.
`process` is the program, `client` its hold on it.
"""

from __future__ import annotations

from .client import Attachment, Gateway, Proxy
from .limits import GatewayLimits
from .rules import connection_rules

__all__ = ("Attachment", "Gateway", "GatewayLimits", "Proxy", "connection_rules")
