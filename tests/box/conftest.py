"""Boxes of root (where the tests run as root), of an ordinary user, and of a program with sanitizers in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gloveport.errors import CapabilityError
from gloveport.machines.namespace.driver import program as installed
from tests.box.client import Connection
from tests.box.places import UID_BASE, Place, skeleton
from tests.box.sanitizers import compile_program, find_compiler

SANITIZED = ("test_box_commands", "test_box_connections", "test_box_files", "test_box_layers", "test_box_network")
SLOW = ("test_a_hundred_thousand_files",)  # to run under sanitizers as well
ORDINARY = 54321  # an id that nothing else has: boxes of it count against its own limits


@pytest.fixture(scope="session")
def program() -> Path:
    if sys.platform != "linux":
        pytest.skip("machines need Linux")
    try:
        return installed()
    except CapabilityError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One that has sanitizers."""
    return find_compiler(tmp_path_factory.mktemp("sanitizers"))


def _place(program: Path, kind: str) -> Iterator[Place]:
    if kind == "user" and os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    uid = ORDINARY if kind == "user" else os.geteuid()
    root = Path(tempfile.mkdtemp(prefix="box-"))
    try:
        copy = root / "box"  # an ordinary user cannot reach into the home of root
        if kind == "sanitized":
            compile_program(find_compiler(root), copy)
        else:
            shutil.copy(program, copy)
        copy.chmod(0o755)
        switch = ("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups") if kind == "user" else ()
        place = Place(root, copy, uid=uid, prefix=switch, sanitized=kind == "sanitized")
        skeleton(place.layer, base=UID_BASE if uid == 0 else None)
        if kind == "user":
            subprocess.run(["chown", "-hR", f"{uid}:{uid}", str(root)], check=True)
        yield place
    finally:
        shutil.rmtree(root, ignore_errors=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" not in metafunc.fixturenames:
        return
    sanitized = metafunc.module.__name__.rpartition(".")[2] in SANITIZED and metafunc.function.__name__ not in SLOW
    kinds = ("root", "user", "sanitized") if sanitized else ("root", "user")
    metafunc.parametrize("place", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest, program: Path) -> Iterator[Place]:
    """Whose boxes; every test runs with root's and a user's."""
    yield from _place(program, request.param)


@pytest.fixture(scope="session")
def shared(place: Place) -> Iterator[Path]:
    """One box for the tests that leave nothing behind in it."""
    with place.box() as folder:
        yield folder


@pytest.fixture
def connection(shared: Path) -> Iterator[Connection]:
    with Connection(shared) as client:
        yield client


@pytest.fixture
def fresh(place: Place) -> Iterator[Callable[..., Path]]:
    """Makes boxes that end with the test."""
    with ExitStack() as stack:
        yield lambda **keys: stack.enter_context(place.box(**keys))


def connect(folder: Path, **options: Any) -> Connection:
    return Connection(folder, **options)


@pytest.fixture
def box(place: Place) -> Iterator[Callable[..., Path]]:
    with ExitStack() as stack:
        yield lambda **keys: stack.enter_context(place.box(**keys))
