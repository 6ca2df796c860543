"""The driver `gvisor`, with Debian's package of `runsc`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gloveport import Sandbox
from gloveport.machines.estate import estate

from ..machines.conftest import boxes_alive, groups_left

PACKAGE = "runsc"
RELEASE = "trixie"  # Debian 12 has one without systrap


def keepers_alive(root):
    """Processes of machines of gVisor below this state directory."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                line = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(root) in line and (b"runsc" in line or b"gvisor.keeper" in line):
                found.append(int(entry.name))
    return found


def fetched():
    """`runsc` from Debian 13, kept between runs; what `apt-get` verifies is unpacked, not installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gloveport", "tests", f"runsc-{RELEASE}")
    program = cache / "usr" / "bin" / "runsc"
    if program.exists():
        return program
    sources = [path.read_text() for path in Path("/etc/apt/sources.list.d").glob("*.sources")]
    stanzas = [part for text in sources for part in re.split(r"\n\s*\n", text) if "debian-archive-keyring" in part]
    if not stanzas or shutil.which("apt-get") is None:
        pytest.skip("runsc is not installed, and this is no Debian that could fetch it")
    stanza = re.sub(r"(?m)^Suites:.*$", f"Suites: {RELEASE}", stanzas[0])
    scratch = cache.with_name(f"{cache.name}.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial", "sources", "preferences"):
        (scratch / name).mkdir(parents=True)
    (scratch / "sources" / "runsc.sources").write_text(stanza + "\n")
    options = {
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": scratch / "sources",
        "Dir::Etc::preferencesparts": scratch / "preferences",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    for command in ([*apt, "update"], [*apt, "download", PACKAGE]):
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(scratch)
            pytest.skip(f"runsc is not installed, and cannot be fetched: {done.stderr[-300:]}")
    (package,) = scratch.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, scratch / "made"], check=True)
    if not cache.exists():
        (scratch / "made").rename(cache)
    shutil.rmtree(scratch)
    return program


def find():
    """The one that is installed, else one that is fetched. Skips."""
    found = os.environ.get("GLOVEPORT_RUNSC") or shutil.which("runsc")
    return Path(found) if found else fetched()


@pytest.fixture(scope="session")
def runsc():
    return find()


@pytest.fixture(scope="session")
def state(tmp_path_factory, runsc):
    """A state directory of the tests, in which nothing may be left."""
    root = tmp_path_factory.mktemp("gvisor") / "state"
    before = {name: os.environ.get(name) for name in ("GLOVEPORT_STATE", "GLOVEPORT_RUNSC")}
    os.environ.update(GLOVEPORT_STATE=str(root), GLOVEPORT_RUNSC=str(runsc))
    found = Sandbox.capabilities("gvisor")
    if found.isolation == "none":
        pytest.skip(f"no machines of gVisor here: {found.problem}")
    yield root
    for record in estate().registry.find():
        estate().kill(record.id)
    assert os.listdir(root / "boxes") == []
    assert keepers_alive(root) == boxes_alive(root) == []
    ended = {record.id: (record.name, record.reason) for record in estate().registry.find(ended=True)}
    assert [(left, ended[Path(left).name]) for left in groups_left(root, list(ended))] == []
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(autouse=True)
def in_state(state):
    before = os.environ["GLOVEPORT_STATE"]
    os.environ["GLOVEPORT_STATE"] = str(state)
    yield state
    os.environ["GLOVEPORT_STATE"] = before


@pytest.fixture
def sandbox(state):
    with Sandbox.create("gvisor", driver="gvisor") as sandbox:
        yield sandbox
