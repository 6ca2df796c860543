"""Addresses that stand for names."""

from __future__ import annotations

import ipaddress
from typing import BinaryIO, Final

__all__ = ("STANDING", "Names")

STANDING: Final = ipaddress.IPv4Network("198.18.0.0/15")
"""The range for benchmarks (RFC 2544): never routed, so that no real address is hidden."""


class Names:
    """One attachment's names. An address, once given to a name, belongs to it for good: it never comes to mean another one.

    With `file`, which is read and appended to, that holds across gateways: programs keep addresses longer than a gateway may live.
    """

    def __init__(self, most: int, file: BinaryIO | None = None) -> None:
        self._most = most
        self._file = file
        self._addresses: dict[str, ipaddress.IPv4Address] = {}
        self._names: dict[ipaddress.IPv4Address, str] = {}
        if file is not None:
            # What a gateway was writing when it died was never answered: the next name may have its place.
            whole = file.read().rpartition(b"\n")[0].decode("ascii", "replace").split("\n")
            for name in filter(None, whole[:most]):
                self._add(name)
            file.truncate(sum(len(name) + 1 for name in self._addresses))

    def address(self, name: str) -> ipaddress.IPv4Address | None:
        """What stands for `name` (in the spelling of `policy.host_name`); `None` when there are too many names."""
        known = self._addresses.get(name)
        if known is None and len(self._addresses) < self._most:
            if self._file is not None and not self._kept(self._file, name.encode("ascii") + b"\n"):
                return None
            known = self._add(name)
        return known

    def _kept(self, file: BinaryIO, line: bytes) -> bool:
        try:
            if file.write(line) == len(line):
                return True
        except OSError:
            pass
        self._most = 0  # no room: an address that could come to mean another name is worse than none
        return False

    def _add(self, name: str) -> ipaddress.IPv4Address:
        known = STANDING[len(self._addresses) + 1]
        self._addresses[name] = known
        self._names[known] = name
        return known

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def host(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
        """The name that an address stands for, or the address itself as a text."""
        if isinstance(address, ipaddress.IPv4Address) and address in self._names:
            return self._names[address]
        return address.compressed
