"""Which program the workers of this installation run."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

from ...errors import EngineUnavailableError

__all__ = ("BUNDLE", "v8_build")

BUNDLE: Final = Path(__file__).resolve().parents[2] / "_native" / "v8.js"


@functools.cache
def v8_build() -> str:
    """SHA-256 of the worker's program. Raises `EngineUnavailableError` when it was not built."""
    try:
        return hashlib.sha256(BUNDLE.read_bytes()).hexdigest()
    except OSError as error:
        raise EngineUnavailableError(
            "the v8 guest is not built: install gloveport with `pip install .`, or run `python hatch_build.py` in its source tree"
        ) from error
