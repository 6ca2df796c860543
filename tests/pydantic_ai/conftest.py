from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def loops() -> Iterator[None]:
    """`run_sync` runs on the thread's event loop, and makes one if need be; nobody closes it."""
    made = [asyncio.new_event_loop()]
    asyncio.set_event_loop(made[0])
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            made.append(asyncio.get_event_loop())
        except RuntimeError:
            pass
    for loop in made:
        loop.close()
    asyncio.set_event_loop(None)
