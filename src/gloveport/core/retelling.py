"""Comparing a replay with what was recorded, while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from ..errors import ReplayDivergence
from ..wire.messages import DoneMessage, FailMessage, decode_output
from .journal import Digest
from .saved import TailRun

__all__ = ("Retelling",)

_RUNS: Final = frozenset((b"R", b"P"))


class Retelling:
    """The runs that a fresh guest goes through again. What it says is checked run by run, and nothing of it is kept.

    With `unfinished`, the last one is a run that waits at a tool call.
    """

    def __init__(self, parts: Sequence[TailRun], *, unfinished: bool) -> None:
        self._expected = [part.digest for part in parts if part.requests and part.requests[0][:1] in _RUNS]
        self._unfinished = unfinished
        self._done = 0
        self._digest = Digest()

    def hear(self, output: bytes) -> None:
        """Take in what the guest said. Raises `ReplayDivergence`, or `ProtocolViolation` for what no guest says."""
        for message in decode_output(output):
            self._digest.add([message])
            if isinstance(message, (DoneMessage, FailMessage)):
                self._end()

    def _end(self) -> None:
        if self._done >= len(self._expected) - self._unfinished or self._digest.value != self._expected[self._done]:
            self._diverged()
        self._done += 1
        self._digest = Digest()

    @property
    def complete(self) -> bool:
        """Whether everything that was recorded has been seen, and nothing else."""
        if self._unfinished:
            return self._done == len(self._expected) - 1 and self._digest.value == self._expected[-1]
        return self._done == len(self._expected) and not self._digest.value

    def _diverged(self) -> NoReturn:
        raise ReplayDivergence("replaying the session gave another outcome than the one recorded")
