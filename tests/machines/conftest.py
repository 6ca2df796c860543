"""Machines in a state directory of the tests, and what they must not leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from pathlib import Path

import pytest

from gloveport import Sandbox
from gloveport.egress.gateway.boxes.commands import Command
from gloveport.egress.gateway.launching import DaemonClient
from gloveport.machines.estate import estate

ADMIN = "root" if os.geteuid() == 0 else None
"""Who may do everything in a machine: one of an ordinary user has a single user, and all of it is that one's."""


def boxes_alive(root):
    """Processes of the program of machines that belong to this state directory."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            line = Path(entry.path, "cmdline").read_bytes()
        except OSError:
            continue
        if b"\0run\0" in line and os.fsencode(root) in line:
            found.append(int(entry.name))
    return found


def groups_left(root, ids):
    """Control groups of these machines."""
    from gloveport.machines.namespace.cgroups import find_groups

    return [str(parent / one) for parent in find_groups().parents for one in ids if (parent / one).exists()]


@pytest.fixture(scope="session")
def state(tmp_path_factory):
    root = tmp_path_factory.mktemp("machines") / "state"
    before = os.environ.get("GLOVEPORT_STATE")
    os.environ["GLOVEPORT_STATE"] = str(root)
    if Sandbox.capabilities().isolation == "none":
        pytest.skip(f"no machines here: {Sandbox.capabilities().problem}")
    yield root
    for record in estate().registry.find():
        estate().kill(record.id)
    DaemonClient(str(root)).ask(Command("end"))  # else it would stay for a minute
    assert os.listdir(root / "boxes") == []
    assert boxes_alive(root) == []
    assert groups_left(root, [record.id for record in estate().registry.find(ended=True)]) == []
    if before is None:
        del os.environ["GLOVEPORT_STATE"]
    else:
        os.environ["GLOVEPORT_STATE"] = before


@pytest.fixture(autouse=True)
def in_state(state):
    """Every test of this folder uses that directory, and leaves no machine that it did not get from a fixture."""
    return state


@pytest.fixture(scope="module")
def shared(state):
    """One machine for a module: for tests that leave it as it was."""
    with Sandbox.create("shared") as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(state):
    with Sandbox.create("one") as sandbox:
        yield sandbox


@pytest.fixture
def loops():
    """For tests that call `run_sync`: it makes an event loop for the thread that nobody closes."""
    made = [asyncio.new_event_loop()]
    asyncio.set_event_loop(made[0])
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with contextlib.suppress(RuntimeError):
            made.append(asyncio.get_event_loop())
    for loop in made:
        loop.close()
    asyncio.set_event_loop(None)


def eventually(check, seconds=10.0):
    """Until it holds."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
