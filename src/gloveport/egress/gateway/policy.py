"""What the rules say of a connection, of which the host and the port are known and the rest is not."""

from __future__ import annotations

import collections
import time
from collections.abc import Sequence
from typing import Final

from ...policy import NetworkRules
from ..evaluator import Decision, Destination, Evaluator, Verdict, Vetted, refusal
from ..lookup import Lookups

__all__ = ("ConnectionPolicy", "schemes")

_REASONS: Final = 256
_STALE: Final = 60.0
_KNOWN: Final = 1024


def schemes(port: int) -> Sequence[str]:
    """What a connection to that port may be. `tcp` is anything: then the first bytes say nothing."""
    if port == 80:
        return ("http", "tcp")
    if port == 443:
        return ("https", "tcp")
    return ("tcp", "http", "https")


class ConnectionPolicy:
    """The rules of one attachment, and why its connections failed."""

    def __init__(self, rules: NetworkRules, lookups: Lookups) -> None:
        self.evaluator = self._judge(rules)
        self._lookups = lookups
        self._before = 0
        self._earlier: tuple[Decision, ...] = ()
        self._known: dict[tuple[str, int], Destination] = {}
        self._reasons: collections.OrderedDict[tuple[str, int], tuple[float, str]] = collections.OrderedDict()

    @staticmethod
    def _judge(rules: NetworkRules) -> Evaluator:
        return Evaluator(rules)

    def told(self, destination: Destination, verdict: Verdict) -> str:
        """A refusal as the guest reads it."""
        return str(refusal(verdict))

    def replace(self, rules: NetworkRules) -> None:
        """Other rules, from the next connection on. The log goes on."""
        self._earlier = (*self._earlier, *self.evaluator.decisions)[-_REASONS:]
        self._before += self.evaluator.noted
        self.evaluator = self._judge(rules)
        self._known.clear()

    def decisions(self, since: int) -> tuple[int, Sequence[Decision]]:
        """How many there were, and those after the first `since` that are still known."""
        count = self._before + self.evaluator.noted
        kept = (*self._earlier, *self.evaluator.decisions)[-_REASONS:]
        return count, kept[-(count - since) :] if count > since else ()

    def allowed(self, host: str, port: int) -> Destination | None:
        """The destination that a connection may be for, `None` if none (which is logged)."""
        known = self._known.get((host, port))
        if known is not None:
            return known
        options = [Destination(host, port, scheme) for scheme in schemes(port)]
        verdicts = [self.evaluator.weigh(option) for option in options]
        # A rule that denies one scheme denies the connection: which one it is comes to light later, if at all.
        denied = next((n for n, v in enumerate(verdicts) if not v.allowed and v.matched is not None), None)
        chosen = next((n for n, v in enumerate(verdicts) if v.allowed), None)
        if denied is None and chosen is not None:
            if len(self._known) < _KNOWN:
                self._known[host, port] = options[chosen]
            return options[chosen]
        verdict = self.evaluator.evaluate(options[denied or 0])
        self.failed(host, port, self.told(options[denied or 0], verdict))
        return None

    async def vetted(self, destination: Destination) -> Vetted:
        """The destination with its addresses. Raises `EgressDeniedError` and `HttpFetchError`."""
        host, port = destination.host, destination.port
        literal = ":" in host or host.rpartition(".")[2].isdigit()
        return self.evaluator.vet(destination, [host] if literal else await self._lookups.awaited(host, port))

    def refused(self, destination: Destination, reason: str) -> None:
        """A refusal for what a connection said."""
        self.failed(destination.host, destination.port, str(self.evaluator.refuse(destination, reason)))

    def failed(self, host: str, port: int, reason: str) -> None:
        """Remembers why."""
        self._reasons.pop((host, port), None)
        self._reasons[host, port] = (time.monotonic(), reason)
        while len(self._reasons) > _REASONS:
            self._reasons.popitem(last=False)

    def why(self, host: str, port: int) -> str | None:
        """Why the last connection there failed, if that was within a minute."""
        when, reason = self._reasons.get((host, port), (0.0, ""))
        return reason if reason and time.monotonic() - when < _STALE else None
