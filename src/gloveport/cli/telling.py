"""What the commands print: nothing that a guest has made drives the terminal, forges a line or cannot be printed."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

__all__ = ("as_json", "as_line", "print_anything")


def as_json(data: Any, *, indent: int | None = None) -> str:
    """JSON that people can read, with escapes for what terminals obey, what nobody sees, and what has no UTF-8."""
    from ..core.outcome import escaped

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    return escaped(json.dumps(data, ensure_ascii=not encoding.startswith("utf"), indent=indent, default=str))


def as_line(text: str) -> str:
    """One line, in which each such character is a `?`."""
    from ..core.outcome import clean

    return clean(text.replace("\n", "?"))


def print_anything() -> None:
    """Standard output and error take every text: what their encoding has not is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # under tests it may be something else
            stream.reconfigure(errors="backslashreplace")
