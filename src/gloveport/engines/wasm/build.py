"""Which guest build this installation has, without loading it."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final, cast

from ...errors import EngineUnavailableError

__all__ = ("NATIVE", "guest_build")

NATIVE: Final = Path(__file__).resolve().parents[2] / "_native"
"""What the package build made: the guest, the compiler's bundle, licences."""


@functools.cache
def guest_build() -> str:
    """SHA-256 of the guest, which images belong to. Raises `EngineUnavailableError` when it was not built."""
    try:
        description = cast("dict[str, Any]", json.loads((NATIVE / "guest.json").read_text("utf-8")))
        return str(description["sha256"])
    except (OSError, ValueError, KeyError) as error:
        raise EngineUnavailableError(
            "the guest is not built: install gloveport with `pip install .`, or run `python hatch_build.py` in its source tree"
        ) from error
