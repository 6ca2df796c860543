"""Addresses that stand for names."""

from __future__ import annotations

import ipaddress
from typing import Final

__all__ = ("STANDING", "Names")

STANDING: Final = ipaddress.IPv4Network("198.18.0.0/15")
"""The range for benchmarks (RFC 2544): never routed, so that no real address is hidden."""


class Names:
    """One attachment's names. An address, once given to a name, belongs to it for good: it never comes to mean another one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._addresses: dict[str, ipaddress.IPv4Address] = {}
        self._names: dict[ipaddress.IPv4Address, str] = {}

    def address(self, name: str) -> ipaddress.IPv4Address | None:
        """What stands for `name` (in the spelling of `policy.host_name`); `None` when there are too many names."""
        known = self._addresses.get(name)
        if known is None and len(self._addresses) < self._most:
            known = STANDING[len(self._addresses) + 1]
            self._addresses[name] = known
            self._names[known] = name
        return known

    def host(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
        """The name that an address stands for, or the address itself as a text."""
        if isinstance(address, ipaddress.IPv4Address) and address in self._names:
            return self._names[address]
        return address.compressed
