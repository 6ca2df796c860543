"""The decision about a destination, by its name and then by its addresses."""

from __future__ import annotations

import collections
import dataclasses
import functools
import ipaddress
import re
import threading
import time
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from ..errors import EgressDeniedError
from ..policy import NetworkRule, NetworkRules
from .addresses import NEVER, Address, Kind, address_kind, is_metadata_name
from .urls import DEFAULT_PORTS, Url, denied

__all__ = ("SAFE_METHODS", "Decision", "Destination", "Evaluator", "Vetted", "Verdict")

SAFE_METHODS: Final = ("GET", "HEAD")
_MAX_ADDRESSES: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """What somebody wants to reach. `host` in the spelling of `policy.host_name`."""

    host: str
    port: int
    scheme: str = "tcp"
    method: str | None = None
    """`None` where none is known, as for `CONNECT` and protocols that are not HTTP."""
    path: str | None = None

    @classmethod
    def of(cls, url: Url, method: str) -> Destination:
        """The destination of an HTTP request."""
        return cls(url.host, url.port, url.scheme, method, url.path)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if DEFAULT_PORTS.get(self.scheme) == self.port else f":{self.port}"
        return f"{self.method + ' ' if self.method else ''}{self.scheme}://{host}{port}"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say of a destination."""

    allowed: bool
    rule: str
    """The rule that decided, as text; empty if none did."""
    reason: str
    """For the model."""
    matched: NetworkRule | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """One line of the log. No path, no query, no headers: those may hold what is secret."""

    when: float
    """Seconds since the epoch."""
    destination: str
    """`GET https://host:port`."""
    allowed: bool
    rule: str
    reason: str
    host: str = ""
    port: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Vetted:
    """A destination with the addresses that passed. Dialers connect to nothing else; only `Evaluator.vet` makes one."""

    destination: Destination
    addresses: tuple[str, ...]


class Evaluator:
    """Decides by `NetworkRules`. Any thread may use it.

    Args:
        rules: what is allowed.
        methods: the HTTP methods of allowing rules that name none; `None` for any.
        log_size: how many decisions are kept.
    """

    def __init__(
        self, rules: NetworkRules, *, methods: Iterable[str] | None = SAFE_METHODS, log_size: int = 256
    ) -> None:
        self.rules = rules
        self._methods = None if methods is None else frozenset(methods)
        self._private = tuple(ipaddress.ip_network(network) for network in rules.private)
        self._log: collections.deque[Decision] = collections.deque(maxlen=log_size)
        self._lock = threading.Lock()
        self.noted = 0
        """How many decisions were ever logged."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The last ones, oldest first."""
        with self._lock:
            return tuple(self._log)

    def evaluate(self, destination: Destination) -> Verdict:
        """What the rules say, before any name is resolved: a name that is refused must not reach a name server either."""
        verdict = self._evaluate(destination)
        if not verdict.allowed:
            self._note(destination, verdict)
        return verdict

    def weigh(self, destination: Destination, addresses: Iterable[str] = ()) -> Verdict:
        """The same without a line in the log, for whoever has not made up its mind about what it wants. Addresses must pass as well."""
        verdict = self._evaluate(destination)
        if verdict.allowed:
            verdict = next(filter(None, (self._refusal(destination, verdict, text) for text in addresses)), verdict)
        return verdict

    def vet(self, destination: Destination, addresses: Iterable[str]) -> Vetted:
        """The destination with its addresses, all of which must pass. Raises `EgressDeniedError`.

        One refused address refuses all: which of them a connection would get is the name server's choice.
        """
        found = tuple(dict.fromkeys(addresses))[:_MAX_ADDRESSES]
        verdict = self.weigh(destination, found)
        self._note(destination, verdict)
        if not verdict.allowed:
            raise refusal(verdict)
        return Vetted(destination, tuple(str(ipaddress.ip_address(text)) for text in found))

    def refuse(self, destination: Destination, reason: str) -> EgressDeniedError:
        """A refusal for another reason than the rules; it is logged as well."""
        self._note(destination, Verdict(False, "", reason))
        return denied(reason)

    # ── by name ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _evaluate(self, destination: Destination) -> Verdict:
        for rule in self.rules.deny:
            if _reaches(rule, destination, denying=True) and self._path_matches(rule, destination, denying=True):
                return Verdict(False, str(rule), f"{destination} is on the deny list", rule)
        address = _address(destination.host)
        near: NetworkRule | None = None
        for rule in self.rules.allow:
            if not _reaches(rule, destination, denying=False):
                continue
            if is_metadata_name(destination.host) and rule.host != destination.host:
                continue
            near = rule
            if self._method_matches(rule, destination) and self._path_matches(rule, destination, denying=False):
                refused = address and self._address_refusal(destination, rule, address)
                return refused or Verdict(True, str(rule), "", rule)
        if near is not None:
            return Verdict(False, "", f"{destination} is allowed with other methods or paths only")
        return Verdict(False, "", f"{destination} is not on the allow list")

    def _method_matches(self, rule: NetworkRule, destination: Destination) -> bool:
        if destination.method is None:
            return not rule.methods
        methods = rule.methods or self._methods
        return methods is None or destination.method in methods

    @staticmethod
    def _path_matches(rule: NetworkRule, destination: Destination, *, denying: bool) -> bool:
        if rule.path == "/":
            return True
        if destination.path is None:
            return denying  # what cannot be seen is not allowed, and is refused
        if not denying:
            return _below(destination.path, rule.path)
        # Servers differ: some collapse slashes, ignore case and drop parameters. A refusal covers what any of them would serve.
        plain = re.sub(r"/+", "/", re.sub(r";[^/]*", "", unquote(destination.path))).lower()
        path = rule.path.lower()
        return _below(plain, path) or plain == path.rstrip("/")

    # ── by address ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _refusal(self, destination: Destination, verdict: Verdict, text: str) -> Verdict | None:
        address = _address(text)
        if address is None or "%" in text:
            return Verdict(False, "", f"{destination} resolved to what is no plain address")
        assert verdict.matched is not None
        return self._address_refusal(destination, verdict.matched, address)

    def _address_refusal(self, destination: Destination, rule: NetworkRule, address: Address) -> Verdict | None:
        for denying in self.rules.deny:
            if denying.cidr and address in _network(denying.cidr) and _port_matches(denying, destination, True):
                return Verdict(False, str(denying), f"the address of {destination} is on the deny list", denying)
        kind = address_kind(address)
        if kind == "public" or self._is_named(destination, rule, address, kind):
            return None
        a = "an" if kind == "unspecified" else "a"
        return Verdict(False, "", f"{destination} has {a} {kind} address, which is not open to it")

    def _is_named(self, destination: Destination, rule: NetworkRule, address: Address, kind: Kind) -> bool:
        if kind in NEVER:
            return False
        if rule.host == destination.host == str(address):
            return True
        named = self._private
        if rule.cidr and destination.host == str(address):
            named = (*named, _network(rule.cidr))
        exact = 1 if kind == "metadata" else 0  # no range opens a metadata service, only its address
        return any(address in network and (not exact or network.num_addresses == 1) for network in named)

    def _note(self, destination: Destination, verdict: Verdict) -> None:
        reason, where = verdict.reason or "allowed", (destination.host, destination.port)
        with self._lock:
            self.noted += 1
            self._log.append(Decision(time.time(), str(destination), verdict.allowed, verdict.rule, reason, *where))


def refusal(verdict: Verdict) -> EgressDeniedError:
    """A verdict as the error that the model reads."""
    return denied(f"{verdict.reason}. Do not try it another way.")


@functools.lru_cache(1024)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text)


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _reaches(rule: NetworkRule, destination: Destination, *, denying: bool) -> bool:
    """Whether host, port and scheme are the rule's, and for a denying rule the method."""
    if rule.scheme is not None and rule.scheme != destination.scheme:
        return False
    if denying and rule.methods and destination.method is not None and destination.method not in rule.methods:
        return False
    return _host_matches(rule, destination.host) and _port_matches(rule, destination, denying)


def _host_matches(rule: NetworkRule, host: str) -> bool:
    if rule.cidr:
        address = _address(host)
        return address is not None and address in _network(rule.cidr)
    if rule.host == "*":
        return True
    if rule.host.startswith("*."):
        return host.endswith(rule.host[1:])
    return host == rule.host


def _port_matches(rule: NetworkRule, destination: Destination, denying: bool) -> bool:
    if rule.ports is None:
        return True
    if rule.ports:
        return destination.port in rule.ports
    return denying or DEFAULT_PORTS.get(destination.scheme) == destination.port


def _below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix) :][:1] in ("", "/"))
