"""What an address is for. Only what is known to be public passes."""

from __future__ import annotations

import ipaddress
from typing import Final, Literal

__all__ = ("Address", "Kind", "address_kind", "is_metadata_name")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Kind = Literal[
    "public",
    "metadata",
    "loopback",
    "private",
    "link-local",
    "shared",
    "documentation",
    "benchmarking",
    "reserved",
    "unspecified",
    "multicast",
    "transition",
]
"""`public` may be reached by anyone whom a rule allows it. The others only where they are named, the last three never."""

NEVER: Final[frozenset[Kind]] = frozenset({"unspecified", "multicast", "transition"})
"""0.0.0.0 is the host itself on Linux; a transition address is another address in disguise, which can be written plainly."""

_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "169.254.169.254",  # AWS, Azure, Google Cloud, and others
            "169.254.170.2",  # AWS: credentials of containers
            "169.254.170.23",  # AWS: credentials of pods
            "fd00:ec2::23",  # the same
            "fd00:ec2::254",  # AWS
            "fd20:ce::254",  # Google Cloud
            "100.100.100.200",  # Alibaba Cloud
            "168.63.129.16",  # Azure WireServer: an address from a public range
            "192.0.0.192",  # Oracle Cloud
        ),
    )
)
_METADATA_NAMES: Final = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)

# IANA's special-purpose registries of October 2024, as a table: `ipaddress.is_global` changed its answers within Python 3.11 and 3.12.
_V4: Final[tuple[tuple[str, Kind], ...]] = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "reserved"),
    ("192.52.193.0/24", "reserved"),
    ("192.88.99.0/24", "transition"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "reserved"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_V6: Final[tuple[tuple[str, Kind], ...]] = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "transition"),  # IPv4-compatible
    ("::ffff:0:0/96", "transition"),  # IPv4-mapped
    ("::ffff:0:0:0/96", "transition"),  # SIIT
    ("64:ff9b::/96", "transition"),  # NAT64
    ("64:ff9b:1::/48", "transition"),  # NAT64 with a prefix of one's own
    ("2001::/32", "transition"),  # Teredo
    ("2002::/16", "transition"),  # 6to4
    ("2001:2::/48", "benchmarking"),
    ("2001:db8::/32", "documentation"),
    ("2001::/23", "reserved"),
    ("2620:4f:8000::/48", "reserved"),  # AS112
    ("3fff::/20", "documentation"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),  # site-local, deprecated
    ("ff00::/8", "multicast"),
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
_V4_NETWORKS: Final[tuple[tuple[ipaddress.IPv4Network, Kind], ...]] = tuple(
    (ipaddress.IPv4Network(text), kind) for text, kind in _V4
)
_V6_NETWORKS: Final[tuple[tuple[ipaddress.IPv6Network, Kind], ...]] = tuple(
    (ipaddress.IPv6Network(text), kind) for text, kind in _V6
)


def address_kind(address: Address) -> Kind:
    """What an address is for. An IPv6 address outside of the ranges that were given out is `reserved`."""
    if address in _METADATA:
        return "metadata"
    if isinstance(address, ipaddress.IPv4Address):
        for network, kind in _V4_NETWORKS:
            if address in network:
                return kind
        return "public"
    if address.scope_id is not None:
        return "link-local"
    for network, kind in _V6_NETWORKS:
        if address in network:
            return kind
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return "transition"
    return "public" if address in _GLOBAL_UNICAST else "reserved"


def is_metadata_name(host: str) -> bool:
    """Whether clouds answer to that name with what a machine may do and who it is."""
    return host in _METADATA_NAMES
