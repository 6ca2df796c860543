"""The agent without a machine around it, with sanitizers in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.box.client import Connection
from tests.box.places import spec, wait_for
from tests.box.sanitizers import OPTIONS, complaint


def listens(folder: Path) -> bool:
    """A socket has its name before anybody listens on it."""
    try:
        Connection(folder).close()
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


@contextlib.contextmanager
def running_agent(folder: Path) -> Iterator[Path]:
    """`box` of that folder as an agent without a machine: it runs where the test runs, and must be alive and content at the end."""
    keys = {"version": 1, "id": "x", "lower": "/", "map_uid": os.geteuid(), "uid": os.geteuid(), "gid": os.getegid()}
    (folder / "spec").write_bytes(spec(**keys, cwd="/"))
    with open(folder / "log", "wb") as log:
        command = [folder / "box", "agent", "spec", "agent.sock"]
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **OPTIONS}, stderr=log)
    try:
        wait_for(lambda: listens(folder) or process.poll() is not None)
        yield folder
        alive = process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert alive and not complaint(folder / "log"), (folder / "log").read_text(errors="replace")[-4000:]
