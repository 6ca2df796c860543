"""Which rules can hold for connections, of which neither the method nor the path is seen."""

from __future__ import annotations

from collections.abc import Sequence

from ...policy import NetworkRule, NetworkRules

__all__ = ("connection_rules",)

_EVERYTHING = NetworkRules(allow=(NetworkRule(host="*", ports=None),))


def connection_rules(allow_network: bool | NetworkRules | Sequence[NetworkRule | str]) -> NetworkRules | None:
    """The rules that `allow_network` means; `None` for no network at all.

    `True` is every public host on every port. Raises `TypeError` for what is none of these, and `ValueError` for rules that cannot be
    read, and for rules with a path or methods: a connection is decided about before it says what is asked for, and TLS hides that.
    """
    if allow_network is False:
        return None
    if allow_network is True:
        return _EVERYTHING
    if isinstance(allow_network, str):
        raise TypeError(
            f"`allow_network` is a list of rules, not the text {allow_network!r}: write [{allow_network!r}]"
        )
    rules = allow_network
    if not isinstance(rules, NetworkRules):
        try:
            rules = NetworkRules(allow=tuple(rules))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except TypeError as error:
            raise TypeError(f"`allow_network` is True, False, a list of rules or `NetworkRules`: {error}") from None
    for rule in (*rules.allow, *rules.deny):
        if rule.path != "/" or rule.methods:
            what = "the path" if rule.path != "/" else "the methods"
            raise ValueError(
                f"{what} of the network rule '{rule}' cannot be enforced for a module's connections, whose content TLS hides: "
                "write the host alone, or give the agent `http_fetch` with that rule instead of the network"
            )
    return rules
