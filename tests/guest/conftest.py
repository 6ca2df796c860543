from __future__ import annotations

from collections.abc import Iterator

import pytest

from .driver import Session


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as made:
        yield made
