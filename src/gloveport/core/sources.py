"""The codes of a session's completed runs, as far as a type checker needs them."""

from __future__ import annotations

from typing import Final

__all__ = ("Sources",)

_MAX_CHARACTERS: Final = 64 * 1024
_MAX_RUNS: Final = 100


class Sources:
    """The latest of them, in bounded memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.complete = True
        """Whether these are the codes of all runs."""
        self._characters = 0

    def add(self, source: str) -> None:
        """A run is complete: what it declared stays."""
        self.texts.append(source)
        self._characters += len(source)
        while self._characters > _MAX_CHARACTERS or len(self.texts) > _MAX_RUNS:
            self._characters -= len(self.texts.pop(0))
            self.complete = False

    def restore(self, saved: tuple[bool, list[str]] | None, runs: int) -> None:
        """Those of a stored session of `runs` runs; `None`: it was stored without."""
        complete, texts = saved if saved is not None else (not runs, [])
        self.texts, self.complete, self._characters = [], complete, 0
        for source in texts:
            self.add(source)

    def saved(self) -> tuple[bool, list[str]]:
        """What `restore` takes."""
        return self.complete, list(self.texts)
