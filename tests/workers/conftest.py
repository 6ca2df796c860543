from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "jail")]

from fake_guest import GUESTS
from jail_people import Person, readable_copy
from worker_frames import Line

from gloveport.engines.wasm.pool import WorkerPool


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(guests=GUESTS) as made:
        yield made


@pytest.fixture
def line(pool: WorkerPool) -> Iterator[Line]:
    with Line(pool.take()) as opened:
        yield opened


@pytest.fixture(scope="session")
def tree() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="gloveport-test-"))
    directory.chmod(0o755)
    yield readable_copy(directory)
    shutil.rmtree(directory)


@pytest.fixture
def person(request: pytest.FixtureRequest, tree: Path) -> Person:
    return Person(request.param, tree)
