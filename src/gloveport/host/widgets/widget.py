"""What rendering gives: `Widget`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ("SUMMARY_BYTES", "Widget")

SUMMARY_BYTES: Final = 300
"""`Widget.summary()` as JSON has fewer bytes."""
_ROOM: Final = 24
"""Of them for `"more": N` and the end."""


@dataclass(frozen=True)
class Widget:
    """A React component that was built, mounted without an error, and put into a page of its own."""

    artifact_id: str
    """Names the page: the same source with the same options has the same one."""
    html: str
    """The page: self-contained, with a Content-Security-Policy that lets it load and send nothing."""
    title: str
    bytes: int
    """Of the page as UTF-8."""
    warnings: tuple[str, ...] = ()
    """What React, the widget or its promises complained of while it was mounted; with lines of the source where known."""
    mounted: bool = True
    """It was mounted in a document without an error. (A widget that fails is a `WidgetError` instead.)"""
    duration: float = 0.0
    """Seconds that rendering took."""

    def summary(self) -> dict[str, Any]:
        """What a model is told: as compact JSON under 300 bytes, whatever the widget wrote. Warnings are cut to fit."""
        told: dict[str, Any] = {
            "artifact_id": self.artifact_id,
            "bytes": self.bytes,
            "mounted": self.mounted,
            "warnings": [],
        }
        warnings: list[str] = told["warnings"]
        for number, warning in enumerate(self.warnings):
            left = SUMMARY_BYTES - 1 - _ROOM - _size(told)
            text = _cut(warning, left)
            if not text:
                told["more_warnings"] = len(self.warnings) - number
                break
            warnings.append(text)
        return told

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page to a file, in place of one that is there. Gives its path."""
        target = Path(path)
        target.write_bytes(self.html.encode())  # not as text: another kind of line end would break the policy's hashes
        return target


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=True, separators=(",", ":")))


def _cut(text: str, room: int) -> str:
    """As much of a text as has `room` bytes in a list of JSON; nothing, rather than a few words."""
    if _size(text) + 1 <= room:
        return text
    if room < 40:
        return ""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle] + "…") + 1 <= room else (low, middle - 1)
    return text[:low] + "…"
