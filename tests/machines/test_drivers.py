"""The kit for drivers, run for ours: as whoever runs the tests, and as an ordinary user."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import tempfile
import traceback
from pathlib import Path

import pytest

import gloveport.machines
from gloveport.machines.home import state_root
from gloveport.machines.images.host import host_image
from gloveport.machines.images.trees import remove_tree
from gloveport.machines.namespace.driver import NamespaceDriver, program
from gloveport.testing import DriverSuite

from .conftest import boxes_alive

ORDINARY = 64_321


class TestNamespaceDriver(DriverSuite):
    @pytest.fixture
    def driver(self):
        return NamespaceDriver()

    @pytest.fixture
    def root(self, tmp_path):
        root = state_root(tmp_path / "state")
        yield root
        assert boxes_alive(root) == []
        remove_tree(root)

    @pytest.fixture
    def image(self, root):
        return host_image(root)


def suite(folder):
    """All tests of the kit, one after the other. Gives what went wrong."""
    root = state_root(folder)
    driver, image, kit = NamespaceDriver(), host_image(root), DriverSuite()
    if driver.probe(root).isolation == "none":
        return {"skipped": driver.probe(root).problem}
    wrong = {}
    for name in [name for name in dir(kit) if name.startswith("test_")]:
        try:
            getattr(kit, name)(driver, root, image)
        except BaseException:
            wrong[name] = traceback.format_exc()
    return wrong


def test_as_an_ordinary_user(monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    for module in pkgutil.walk_packages(gloveport.machines.__path__, "gloveport.machines."):
        importlib.import_module(module.name)  # that user may not read this interpreter's files
    home = Path(tempfile.mkdtemp(prefix="gloveport-user-"))
    try:
        home.chmod(0o755)
        native = home / program().name
        shutil.copy(program(), native)
        native.chmod(0o755)
        monkeypatch.setattr("gloveport.machines.namespace.driver.program", lambda: native)
        (home / "own").mkdir()
        os.chown(home / "own", ORDINARY, ORDINARY)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(ORDINARY)
                os.setuid(ORDINARY)
                os.write(write, json.dumps(suite(home / "own" / "state")).encode())
            except BaseException:
                os.write(write, json.dumps({"child": traceback.format_exc()}).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read, "rb") as file:
            wrong = json.loads(file.read())
        os.waitpid(child, 0)
        if "skipped" in wrong:
            pytest.skip(wrong["skipped"])
        assert wrong == {}, "\n".join(wrong.values())
        assert boxes_alive(home) == []
    finally:
        remove_tree(home)
