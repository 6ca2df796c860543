"""What a box may reach. Beside what holds for modules: methods and paths of plain HTTP, and refusals that name the way out."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Final

from ....policy import NetworkRules
from ...evaluator import Destination, Evaluator, Verdict, Vetted
from ...lookup import Lookups
from ..policy import ConnectionPolicy, schemes

__all__ = ("BoxPolicy", "is_literal")

_KNOWN_ADDRESSES: Final = 1024
NO_RULES: Final = NetworkRules()


def is_literal(host: str) -> bool:
    """Whether that is an address, in the spelling of `policy.host_name`."""
    return ":" in host or host.rpartition(".")[2].isdigit()


class BoxPolicy(ConnectionPolicy):
    """The rules of one box. A rule without methods allows all."""

    def __init__(self, rules: NetworkRules, lookups: Lookups) -> None:
        super().__init__(rules, lookups)
        self._owners: collections.OrderedDict[str, str] = collections.OrderedDict()
        self.opens: Callable[[Destination], bool] = lambda _: False
        """Whether requests within TLS are seen: then it is they that are decided about."""

    @staticmethod
    def _judge(rules: NetworkRules) -> Evaluator:
        return Evaluator(rules, methods=None)

    def replace(self, rules: NetworkRules) -> None:
        """Other rules, from the next connection on."""
        super().replace(rules)
        self._owners.clear()

    def intended(self, host: str, port: int) -> Destination | None:
        """The destination that a connection may be for; `None` if none, which is logged.

        Where plain HTTP is spoken everything may: there is a better way to refuse, an answer, and it is the request that decides.
        """
        opened = self.opened(host, port)
        if opened is not None:
            return opened
        if is_literal(host) and not self._weighed(host, port):
            # An address that an allowed name of this box had: programs look up and connect by other ways than ours.
            owner = self._owners.get(host)
            if owner is not None and self._weighed(owner, port):
                host = owner
        if self._speaks_http(port) and not self._weighed(host, port):
            return Destination(host, port, "http")
        return self.allowed(host, port)

    def known(self, host: str, port: int) -> bool:
        """Whether some rule allows connections there. Nothing is logged."""
        return self._weighed(host, port) or self.opened(host, port) is not None

    def still(self, destination: Destination, address: str) -> bool:
        """Whether what was begun there may go on, over a connection to that address (empty: there is none yet). Nothing is logged."""
        if not address and destination.method is None and (destination.scheme == "http" or self.opens(destination)):
            return True  # nothing was asked for: it is the request that decides
        dialled = [address] if address else []
        verdicts = {
            scheme: self.evaluator.weigh(dataclasses.replace(destination, scheme=scheme), dialled)
            for scheme in schemes(destination.port)
        }
        if any(not v.allowed and v.matched for v in verdicts.values()):
            return False
        # Whatever it is, it is TCP too.
        return any(v.allowed for scheme, v in verdicts.items() if scheme in (destination.scheme, "tcp"))

    def opened(self, host: str, port: int) -> Destination | None:
        """The destination of a connection whose TLS ends here, if it is one."""
        destination = Destination(host, port, "https")
        return destination if self.opens(destination) else None

    def permit(self, destination: Destination) -> Verdict:
        """What the rules say of a request whose method and path are known. A refusal is logged."""
        for scheme in schemes(destination.port):
            other = Destination(destination.host, destination.port, scheme, destination.method, destination.path)
            verdict = self.evaluator.weigh(other)
            if scheme != destination.scheme and not verdict.allowed and verdict.matched is not None:
                return self.evaluator.evaluate(other)  # denied under another scheme is denied
        return self.evaluator.evaluate(destination)

    async def vetted(self, destination: Destination) -> Vetted:
        """The destination with its addresses. Raises `EgressDeniedError` and `HttpFetchError`."""
        vetted = await super().vetted(destination)
        if not is_literal(destination.host):
            for address in vetted.addresses:
                self._owners[address] = destination.host
                self._owners.move_to_end(address)
            while len(self._owners) > _KNOWN_ADDRESSES:
                self._owners.popitem(last=False)
        return vetted

    def told(self, destination: Destination, verdict: Verdict) -> str:
        """A refusal, with what would have to change."""
        host = f"[{destination.host}]" if ":" in destination.host else destination.host
        where = f"{host}:{destination.port}"
        text = f"blocked by policy: {verdict.reason} ({where})"
        if verdict.matched is not None:
            return (
                f"{text}. Do not try it another way: the rule {verdict.rule!r} of this sandbox's `network` refuses it."
            )
        return f"{text}. Do not try it another way: whoever made this sandbox can allow it with network=[{where!r}]."

    def _weighed(self, host: str, port: int) -> bool:
        verdicts = [self.evaluator.weigh(Destination(host, port, scheme)) for scheme in schemes(port)]
        return any(v.allowed for v in verdicts) and not any(not v.allowed and v.matched for v in verdicts)

    def _speaks_http(self, port: int) -> bool:
        return port == 80 or any(
            rule.scheme == "http" and port in (rule.ports or ()) for rule in self.evaluator.rules.allow
        )
