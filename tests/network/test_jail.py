"""What a program can do with a jail's network, whoever started it; and without the kernel's help at `connect`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "jail"))

from jail_people import ORDINARY_PYTHON, Person, people, readable_copy

from gloveport.engines.jail import command

from .world import OPEN

EPERM, EACCES = -1, -13


@pytest.fixture(scope="module")
def tree():
    directory = Path(tempfile.mkdtemp(prefix="gloveport-test-"))
    directory.chmod(0o755)
    copy = readable_copy(directory)
    # The ordinary user's Python has no packages; the gateway needs one.
    shutil.copytree(Path(importlib.util.find_spec("msgspec").origin).parent, copy / "src" / "msgspec")
    yield copy
    shutil.rmtree(directory)


@pytest.mark.parametrize("person", people("root", "ordinary"))
def test_what_a_program_can_do_with_it(person, tree):
    someone = Person(person, tree)
    if person == "ordinary" and f"python{sys.version_info[0]}.{sys.version_info[1]}" not in str(
        Path(ORDINARY_PYTHON).resolve()
    ):
        pytest.skip("the system's Python is of another version than the packages here")
    seen = someone.run("network/network_program.py", "require")
    assert seen.pop("allowed") == "HTTP/1.0 418 I'"
    assert seen.pop("name") == "198.18.0.1"
    assert seen.pop("other port") == EACCES
    assert seen.pop("six") == EACCES
    assert seen.pop("devices") == ["lo"]
    assert seen.pop("descriptors") == [0, 1, 2]
    assert [seen.pop(what) for what in ("tcp", "udp", "tcp6", "bind udp")] == [0, 0, 0, 0]
    assert seen.pop("decisions") == [True, False, False]
    assert seen.pop("bind tcp") == EACCES  # Landlock's
    assert seen.pop("pair") == EACCES
    assert seen == dict.fromkeys(
        ("raw", "icmp", "packet", "netlink", "unix", "vsock", "sctp", "mptcp", "listen"), EPERM
    )


@pytest.mark.parametrize("sandbox", ["require", "auto"])
@pytest.mark.parametrize("person", people("nobody may make namespaces"))
def test_a_machine_without_namespaces_has_no_network_for_it(person, sandbox, tree):
    """Never the host's own: also where the rest of the jail may be left out."""
    said = Person(person, tree).run("network/network_program.py", sandbox)
    assert said["error"].startswith(("SandboxUnavailableError", "EngineUnavailableError"))
    assert "namespace" in said["error"]


def test_a_watcher_that_is_gone_refuses_everything(guest, monkeypatch):
    honest = command._network

    def without(*arguments):
        sockets = honest(*arguments)
        os.close(sockets.watcher)
        sockets.watcher = -1
        return sockets

    monkeypatch.setattr(command, "_network", without)
    made = guest("say(await tried(() => text('http://open.test/')));", ["open.test"])
    assert "error" in made.line()


def test_the_ports_of_a_jail_that_was_never_watched(guest, monkeypatch):
    """A kernel or a container that does not allow it: then the ports of HTTP and those of the rules are all there is."""
    start = command._start
    monkeypatch.setattr(
        command,
        "_start",
        lambda process, order, *rest, **options: start(process, {**order, "watched": False}, *rest, **options),
    )
    code = """
    say(await tried(() => text("http://open.test/")));
    say(await tried(() => text("http://open.test:8080/")));
    say(await tried(() => text("http://open.test:8443/")));
    say(await tried(() => text("http://other.test/")));
    """
    made = guest(code, ["open.test", "open.test:8080", "other.test:9000"])
    assert made.line() == {"ok": OPEN}
    assert made.line() == {"ok": OPEN}
    assert "blocked by policy: tcp://open.test:8443" in made.line()["error"]
    assert "blocked by policy: http://other.test" in made.line()["error"]
    made = guest("say(await tried(() => text('http://open.test:8443/')));", True)
    assert "a rule that names it" in made.line()["error"]
