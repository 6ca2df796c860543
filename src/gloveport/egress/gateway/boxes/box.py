"""One box inside of the gateway: what its plan says, and whatever of its network is there."""

from __future__ import annotations

import os
import socket
from typing import Final

from ...lookup import Lookups, Resolver
from ..limits import GatewayLimits
from ..names import Names
from .connections import BoxConnections
from .journal import Journal
from .network import BoxNetwork, BoxSockets
from .plans import BoxPlan, read_plan, read_secrets
from .policy import NO_RULES, BoxPolicy
from .previews import Previews
from .proxy import BoxProxy

__all__ = ("Box",)

NAMES_FILE: Final = "network.names"
_LOOKUPS: Final = 16


class Box:
    """What is served for one box. It comes to be with the first that is asked for it, and goes with the box."""

    def __init__(self, plan: BoxPlan, folder: str, resolver: Resolver) -> None:
        self.id = plan.box
        self.folder = folder
        self.channel: socket.socket | None = None
        """The supervisor's; `None` while there is none."""
        # Each has look-ups of its own, so that names that hang are nobody else's trouble.
        self.policy = BoxPolicy(plan.rules or NO_RULES, Lookups(resolver, _LOOKUPS))
        self.journal = Journal(folder if os.path.isdir(folder) else None)
        self.connections = BoxConnections(self.policy, plan.limits, self.journal)
        self.previews = Previews(folder)
        self._names: Names | None = None
        self._network: BoxNetwork | None = None
        self._proxy: BoxProxy | None = None
        self._rules = plan.rules
        self._secrets = b""

    def attach(self, channel: socket.socket, plan: BoxPlan, descriptors: list[int]) -> None:
        """Takes the sockets of the box's namespace, in place of those that it may have. Raises `ValueError`, `OSError`."""
        sockets = BoxSockets(descriptors) if descriptors else None
        self.detach()
        self.channel = channel
        if sockets is not None:
            names = self._names = self._names or self._remembered(plan.limits)
            self._network = BoxNetwork(sockets, self.policy, plan.limits, names, self.connections)

    def detach(self) -> None:
        """Lets go of the namespace and of the channel; connections go on."""
        if self._network is not None:
            self._network.detach()
            self._network = None
        self.channel = None

    def load(self, plan: BoxPlan) -> list[str]:
        """Takes what the plan says now. Gives what went wrong, which is for whoever changed it. Raises `ValueError`, `OSError`."""
        if plan.rules != self._rules:
            self.policy.replace(plan.rules or NO_RULES)
            self._rules = plan.rules
            self.connections.recheck()
            if self._network is not None:
                self._network.open_rules()
        self.connections.interception.load(read_secrets(self.folder))
        if plan.proxy and self._proxy is None:
            self._proxy = BoxProxy(self.folder, self.connections)
        elif not plan.proxy and self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        return self.previews.set(plan.previews)

    @property
    def wanted(self) -> bool:
        """Whether there is something to serve."""
        return self.channel is not None or bool(self.previews) or self._proxy is not None

    def reload(self) -> list[str]:
        """Reads the plan again. Raises `ValueError`, `OSError`."""
        plan = read_plan(self.folder)
        if plan is None:
            raise ValueError(f"the sandbox {self.id} has no plan of its network")
        return self.load(plan)

    def close(self) -> None:
        """Ends everything."""
        self.detach()
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        self.previews.close()
        self.connections.close()
        self.journal.close()
        if self._names is not None:
            self._names.close()
            self._names = None

    def _remembered(self, limits: GatewayLimits) -> Names:
        if not os.path.isdir(self.folder):
            return Names(limits.names)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(os.path.join(self.folder, NAMES_FILE), flags, 0o600)
        return Names(limits.names, open(descriptor, "r+b", buffering=0))
