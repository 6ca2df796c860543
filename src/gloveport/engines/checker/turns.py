"""Whose check is next: slow types of one session hold up the others as little as possible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Final

from gloveport.errors import TypeCheckUnavailableError

__all__ = ("CheckerBusyError", "Turn", "Turns")

SHARE: Final = 0.25
"""Seconds after which a check goes on only while nobody else waits: a usual one takes 0.003."""
HEAVY: Final = 1.0
"""Seconds of the checker's time; whoever has used more lately is behind everybody who has not, in a place of its own."""
HALF_LIFE: Final = 30.0
"""Seconds after which half of what an asker has used is forgotten."""
_KEPT_ASKERS: Final = 1000
_FORGOTTEN: Final = 0.01


class CheckerBusyError(TypeCheckUnavailableError):
    """No turn came in time."""

    def __init__(self) -> None:
        super().__init__("the type checker is busy with other sources: try again")


class Turn:
    """One check that waits, or is under way."""

    __slots__ = ("asker", "began", "grant", "heavy", "stopped")

    def __init__(self, asker: Hashable, grant: Callable[[Turn], None], heavy: bool) -> None:
        self.asker = asker
        self.grant = grant
        self.heavy = heavy
        self.began = 0.0
        self.stopped = False


class Turns:
    """Gives `places` turns at a time, one to each asker.

    Who has used little is first, in the order of asking. Who has used much, or says that it will, is behind them, the one with least
    first, and has all places but one at most. A check that was not known to need much gives its place back when all places have been
    held for long, and is then one of those. Any thread may use it, also at the same time.
    """

    def __init__(self, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = places
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[Turn] = []
        self._served: list[Turn] = []
        self._used: dict[Hashable, tuple[float, float]] = {}
        """Seconds that an asker has used, and when that was noted."""

    @contextmanager
    def taken(self, asker: Hashable, timeout: float, *, heavy: bool = False) -> Generator[Turn]:
        """A turn. Blocks until it comes; raises `CheckerBusyError` if that takes longer than `timeout` seconds."""
        granted = threading.Event()
        turn = self.ask(asker, lambda _: granted.set(), heavy=heavy)
        try:
            if not granted.wait(timeout) and self.withdraw(turn):
                raise CheckerBusyError
            yield turn
        finally:
            self.end(turn)

    def ask(self, asker: Hashable, grant: Callable[[Turn], None], *, heavy: bool = False) -> Turn:
        """Wait for a turn without blocking: `grant` is called when it has come, maybe at once, maybe in another thread."""
        turn = Turn(asker, grant, heavy)
        with self._lock:
            self._waiting.append(turn)
            granted = self._next()
        _tell(granted)
        return turn

    def withdraw(self, turn: Turn) -> bool:
        """Wait no longer; whether it was still waiting."""
        with self._lock:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True

    def count(self, turn: Turn) -> None:
        """From now on its time counts as used: until now it may have waited for a process to start."""
        turn.began = self._clock()

    def unwanted(self, turn: Turn) -> bool:
        """Whether this check is to give its place back, and to ask again as one that needs much."""
        with self._lock:
            now = self._clock()
            if turn.heavy or turn not in self._served or len(self._served) < self._places:
                return False
            if any(one.stopped or now - one.began < SHARE for one in self._served):
                return False
            turn.stopped = any(not self._much(one, now) for one in self._ready())
            return turn.stopped

    def end(self, turn: Turn) -> None:
        """A turn is over. Idempotent."""
        if self.withdraw(turn):
            return
        with self._lock:
            if turn not in self._served:
                return
            self._served.remove(turn)
            now = self._clock()
            spent = now - turn.began
            if turn.stopped:  # it would have used more, and may come again
                spent += 2 * HEAVY
            self._used[turn.asker] = (self._seconds(turn.asker, now) + spent, now)
            if len(self._used) > _KEPT_ASKERS:
                self._forget(now)
            granted = self._next()
        _tell(granted)

    def _next(self) -> list[Turn]:
        """Those whose turn it is now."""
        granted: list[Turn] = []
        now = self._clock()
        while len(self._served) < self._places and (ready := self._ready()):
            turn = next((one for one in ready if not self._much(one, now)), None)
            if turn is None:
                if sum(one.heavy for one in self._served) >= max(1, self._places - 1):
                    break
                turn = min(ready, key=lambda one: self._seconds(one.asker, now))
                turn.heavy = True
            turn.began = now
            self._waiting.remove(turn)
            self._served.append(turn)
            granted.append(turn)
        return granted

    def _ready(self) -> list[Turn]:
        served = {turn.asker for turn in self._served}
        return [turn for turn in self._waiting if turn.asker not in served]

    def _much(self, turn: Turn, now: float) -> bool:
        return turn.heavy or self._seconds(turn.asker, now) > HEAVY

    def _seconds(self, asker: Hashable, now: float) -> float:
        used, noted = self._used.get(asker, (0.0, now))
        return used * 0.5 ** ((now - noted) / HALF_LIFE)

    def _forget(self, now: float) -> None:
        for asker in list(self._used):
            if self._seconds(asker, now) < _FORGOTTEN:
                del self._used[asker]


def _tell(granted: list[Turn]) -> None:
    for turn in granted:
        turn.grant(turn)
