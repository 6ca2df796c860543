"""The network of a sandbox, as it is asked for: `network=`."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...policy import NetworkRule, NetworkRules

__all__ = ("Network", "NetworkConfig", "network_rules")

_EVERYTHING: Final = NetworkRule(host="*", ports=None)
_ALL_ADDRESSES: Final = frozenset({"0.0.0.0/0", "::/0"})
_KEYS: Final = ("allow_out", "deny_out", "private")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Rules in the words that services for sandboxes use.

    Args:
        allow_out: names (`"pypi.org"`, `"*.github.com"`), with a port or not (without: every port), addresses and networks
            (`"203.0.113.0/24"`). What is listed is allowed and nothing else; `None` is every public host.
        deny_out: the same, refused; it wins. `"0.0.0.0/0"` says in these words "everything that is not allowed", which holds anyway.
        private: networks that are not public, and that allowed names may lead to.
    """

    allow_out: Sequence[str] | None = None
    deny_out: Sequence[str] | None = None
    private: Sequence[str] = ()

    def rules(self) -> NetworkRules:
        """The same as `NetworkRules`. Raises `ValueError` for what cannot be read, `TypeError` for what is no list of texts."""
        allow, deny = _texts("allow_out", self.allow_out), _texts("deny_out", self.deny_out)
        refuses_all = bool(_ALL_ADDRESSES.intersection(deny or ()))
        allowed = [_rule(text) for text in allow or ()]
        if allow is None and not refuses_all:
            allowed = [_EVERYTHING]
        denied = [_rule(text) for text in deny or () if text not in _ALL_ADDRESSES]
        return NetworkRules(
            allow=tuple(allowed), deny=tuple(denied), private=tuple(_texts("private", self.private) or ())
        )


Network = NetworkRules | NetworkConfig | Mapping[str, Any] | Sequence[NetworkRule | str] | str | None
"""What `network=` takes."""


def network_rules(network: Network) -> NetworkRules | None:
    """The rules that `network=` means; `None` for no network at all.

    `"internet"` is every public host, on every port. A list has rules as texts or `NetworkRule`; `NetworkConfig`, or a mapping with
    `allow_out` and `deny_out`, has them in the words of other services. A rule with a path or methods has to be one for
    `http://`, or for a host that gets a secret: within TLS neither is seen.

    Raises `TypeError` for what is none of these, `ValueError` for rules that cannot be read or enforced.
    """
    rules = _read(network)
    for rule in (*rules.allow, *rules.deny) if rules else ():
        if (rule.path != "/" or rule.methods) and rule.scheme not in ("http", "https"):
            raise ValueError(
                f"the network rule '{rule}' has a path or methods, which are seen in plain HTTP only: "
                f"write it with http:// in front, and a rule without them for TLS"
            )
    return rules


def _read(network: Network) -> NetworkRules | None:
    if network is None or isinstance(network, NetworkRules):
        return network
    if isinstance(network, NetworkConfig):
        return network.rules()
    if isinstance(network, str):
        if network == "internet":
            return NetworkRules(allow=(_EVERYTHING,))
        raise ValueError(
            f'`network` is "internet", None or a list of rules, not the text {network!r}: write [{network!r}]'
        )
    if isinstance(network, Mapping):
        unknown = sorted(set(network) - set(_KEYS))
        if unknown:
            raise ValueError(f"`network` has the unknown key {unknown[0]!r}: it takes {', '.join(_KEYS)}")
        return NetworkConfig(**dict(network)).rules()
    if isinstance(network, bool) or not isinstance(network, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'`network` is "internet", None, a list of rules or `NetworkRules`, not {network!r}')
    return NetworkRules(allow=tuple(network))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def _texts(name: str, value: Sequence[str] | None) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not all(isinstance(text, str) for text in value):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`{name}` must be a list of texts, not {value!r}")
    return list(value)


def _rule(text: str) -> NetworkRule:
    """One entry: an address or a network is one, and a name without a port means every port."""
    try:
        return NetworkRule(cidr=str(ipaddress.ip_network(text)), ports=None)
    except ValueError:
        rule = NetworkRule.parse(text)
    return dataclasses.replace(rule, ports=None) if not rule.ports and rule.scheme is None else rule
