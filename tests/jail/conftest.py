from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from jail_people import Person, readable_copy


@pytest.fixture(scope="session")
def tree() -> Iterator[Path]:
    """Not below pytest's own directory, which only its owner may enter."""
    directory = Path(tempfile.mkdtemp(prefix="gloveport-test-"))
    directory.chmod(0o755)
    yield readable_copy(directory)
    shutil.rmtree(directory)


@pytest.fixture
def person(request: pytest.FixtureRequest, tree: Path) -> Person:
    return Person(request.param, tree)
