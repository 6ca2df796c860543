"""A line on stderr that says what takes so long."""

from __future__ import annotations

import re
import sys
import time
from typing import Final, TextIO

__all__ = ("Progress",)

_COUNT: Final = re.compile(r"(\d+) of (\d+)")
_WIDTH: Final = 24


class Progress:
    """Called with a few words. On a terminal one line that changes, with a bar where something is counted; else a line for each stage.

    Nothing is written for what takes less than `patience` seconds.
    """

    def __init__(self, stream: TextIO | None = None, *, patience: float = 0.5) -> None:
        self._stream = stream or sys.stderr
        self._began = time.monotonic()
        self._patience = patience
        self._stage = ""
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show it."""
        spent = time.monotonic() - self._began
        stage = _COUNT.sub("", text)
        if self._stream.isatty():
            if spent >= self._patience:
                self._stream.write(f"\r\x1b[K{_bar(text)} ({spent:.0f} s)")
                self._shown = True
        elif stage != self._stage:
            self._stream.write(f"{stage.strip()}\n")
        self._stage = stage
        self._stream.flush()

    def close(self) -> None:
        """The line is taken away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _bar(text: str) -> str:
    found = _COUNT.search(text)
    if found is None or not int(found[2]):
        return text
    full = min(_WIDTH, round(_WIDTH * int(found[1]) / int(found[2])))
    return f"[{'#' * full}{' ' * (_WIDTH - full)}] {text}"
