"""Widgets that outlive the run that made them, in the application's hands."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...policy import MIB
from .widget import Widget

__all__ = ("Artifacts",)


class Artifacts:
    """Widgets by their id, in bounded memory: of those rendered longest ago the oldest go first. Any thread may use it.

    Args:
        max_count: how many are kept.
        max_bytes: bytes of all pages together.
    """

    def __init__(self, *, max_count: int = 100, max_bytes: int = 64 * MIB) -> None:
        if max_count < 1 or max_bytes < 1:
            raise ValueError("max_count and max_bytes must be positive")
        self.max_count: Final = max_count
        self.max_bytes: Final = max_bytes
        self._kept: OrderedDict[str, Widget] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, widget: Widget) -> None:
        """Keeps one. A page that is larger than `max_bytes` by itself is not kept."""
        with self._lock:
            self._drop(widget.artifact_id)
            if widget.bytes > self.max_bytes:
                return
            self._kept[widget.artifact_id] = widget
            self._bytes += widget.bytes
            while len(self._kept) > self.max_count or self._bytes > self.max_bytes:
                self._drop(next(iter(self._kept)))

    def _drop(self, artifact_id: str) -> None:
        dropped = self._kept.pop(artifact_id, None)
        if dropped is not None:
            self._bytes -= dropped.bytes

    def get(self, artifact_id: str) -> Widget | None:
        """The widget with that id, if it is kept."""
        return self._kept.get(artifact_id)

    def __getitem__(self, artifact_id: str) -> Widget:
        widget = self._kept.get(artifact_id)
        if widget is None:
            raise KeyError(
                f"there is no widget {artifact_id!r}: it was never rendered here, or had to make room for others"
            )
        return widget

    def save(self, artifact_id: str, path: str | os.PathLike[str]) -> Path:
        """Writes the page of a widget to a file. Raises `KeyError`."""
        return self[artifact_id].save(path)

    def __iter__(self) -> Iterator[Widget]:
        with self._lock:
            return iter(list(self._kept.values()))

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, artifact_id: object) -> bool:
        return artifact_id in self._kept
