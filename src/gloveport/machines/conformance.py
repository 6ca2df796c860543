"""What every driver of machines has to do, as tests: for the drivers of this package, and for those of others.

class TestMyDriver(DriverSuite):
    @pytest.fixture
    def driver(self): …      # a driver

    @pytest.fixture
    def root(self): …        # a new directory of state (`state_root(path)`), which the fixture removes

    @pytest.fixture
    def image(self, root): … # what machines are made of: `Image`, with a POSIX shell at /bin/sh

pytest collects the methods. They use plain asserts, and leave no machine behind when the driver's `kill` and `release` do what they say.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from ..errors import SandboxError
from .channel import Channel
from .driver import Driver
from .exec import ExecRequest, Follower, listing
from .images.trees import remove_tree
from .result import CommandResult
from .spec import BoxSpec, Image, Limits
from .state import Seen

__all__ = ("DriverSuite", "Machine")

_PATIENCE = 20.0


class Machine:
    """One machine of a driver under test."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self.driver, self.folder = driver, folder
        self._channel = Channel(folder, "agent.sock", self)

    def lost(self) -> None:
        """As the watcher of its connections."""
        if self.seen.condition not in ("running", "paused"):
            raise SandboxError("the machine is gone")

    closed = lost

    def silent(self, waited: float, *, heard: bool, overdue: bool) -> bool:
        """As the watcher of its connections."""
        del heard
        self.lost()
        assert not overdue, "the machine does not answer"
        assert waited < _PATIENCE * 3, "the machine does not answer"
        return self.seen.condition == "paused"

    @property
    def seen(self) -> Seen:
        """How it is."""
        return self.driver.look(self.folder)

    def run(self, shell: str, **more: Any) -> CommandResult:
        """A command to its end."""
        options: dict[str, Any] = {"timeout_ms": 20_000, **more}
        request = ExecRequest(shell=shell, **options)
        return self._channel.run(lambda: Follower(limit=1 << 20).run(request))

    def start(self, shell: str) -> int:
        """A command that goes on. Gives its id."""
        request = ExecRequest(shell=shell, detach=True, follow=False)
        return self._channel.run(lambda: Follower(limit=0).start(request))

    def commands(self) -> dict[int, str]:
        """States by id."""
        return {info.id: info.state for info in self._channel.run(listing)}

    def drop(self) -> None:
        """Let go of idle connections."""
        self._channel.drop()


def eventually(check: Callable[[], Any]) -> None:
    """Until it holds."""
    end = time.monotonic() + _PATIENCE
    while not check():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


class DriverSuite:
    """Derive from it, and define the fixtures `driver`, `root` and `image`."""

    @contextlib.contextmanager
    def machine(self, driver: Driver, root: Path, image: Image, **more: Any) -> Generator[Machine]:
        """A machine for a while."""
        folder = root / "boxes" / f"suite-{secrets.token_hex(6)}"
        folder.mkdir(mode=0o700, parents=True)
        limits = Limits(memory_mb=256, pids=64, disk_mb=256)
        options: dict[str, Any] = {"hostname": "suite", "image": image, "limits": limits, "env": {}, "root": False}
        options |= {"id": folder.name, **more}
        spec = BoxSpec(**options)
        machine = Machine(driver, folder)
        try:
            driver.start(folder, driver.prepare(folder, spec))
            yield machine
        finally:
            machine.drop()
            driver.kill(folder, "suite")
            driver.release(folder)
            remove_tree(folder)
        assert driver.look(folder).condition == "absent"

    def test_it_runs_commands(self, driver: Driver, root: Path, image: Image) -> None:
        with self.machine(driver, root, image, env={"GIVEN": "yes"}) as machine:
            assert machine.seen.condition == "running"
            result = machine.run("echo $GIVEN; echo wrong >&2; exit 3")
            assert (result.stdout, result.stderr, result.exit_code) == ("yes\n", "wrong\n", 3)
            assert machine.run("cd && echo x > own && cat own").stdout == "x\n"
            assert machine.run("kill -9 $$").exit_code == 137
            late = machine.run("sleep 60", timeout_ms=300)
            assert late.timed_out

    def test_machines_see_nothing_of_each_other(self, driver: Driver, root: Path, image: Image) -> None:
        with self.machine(driver, root, image) as one, self.machine(driver, root, image) as two:
            one.run("echo mine > /tmp/mine")
            number = one.start("exec sleep 1234")
            assert two.run("cat /tmp/mine").exit_code != 0
            assert two.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout.count("sleep 1234") == 0
            assert one.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout.count("sleep 1234") >= 1
            assert one.commands()[number] == "running"
            assert two.run(f"test -e {root}").exit_code == 1  # nor of the host's state

    def test_it_has_no_network(self, driver: Driver, root: Path, image: Image) -> None:
        with self.machine(driver, root, image) as machine:
            shown = machine.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route")
            assert shown.stdout in ("lo\n", "")

    def test_a_pause_keeps_what_runs(self, driver: Driver, root: Path, image: Image) -> None:
        if driver.probe(root).memory_pause == "none":
            return
        with self.machine(driver, root, image) as machine:
            number = machine.start("i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.01; done")
            eventually(lambda: machine.run("cat /tmp/count").stdout)
            machine.drop()
            driver.freeze(machine.folder)
            driver.freeze(machine.folder)  # it is paused already: nothing happens
            assert machine.seen.condition == "paused"
            driver.thaw(machine.folder)
            driver.thaw(machine.folder)
            assert machine.seen.condition == "running"
            before = machine.run("cat /tmp/count").stdout
            eventually(lambda: machine.run("cat /tmp/count").stdout not in ("", before))
            assert machine.commands()[number] == "running"

    def test_it_is_still_for_a_copy(self, driver: Driver, root: Path, image: Image) -> None:
        with self.machine(driver, root, image) as machine:
            machine.start("i=0; while :; do i=$((i+1)); echo $i > /workspace/count; done")
            eventually(lambda: machine.run("cat /workspace/count").stdout)
            machine.drop()
            with driver.still(machine.folder):
                place = machine.folder / "upper/workspace/count"
                if driver.probe(root).files == "disk":
                    assert len({place.read_bytes() for _ in range(20) if not time.sleep(0.005)}) == 1
            before = machine.run("cat /workspace/count").stdout
            eventually(lambda: machine.run("cat /workspace/count").stdout not in ("", before))
            machine.drop()
            try:
                with driver.still(machine.folder):
                    raise KeyError
            except KeyError:
                pass
            eventually(lambda: machine.seen.condition == "running")  # what went wrong does not leave it so
            driver.freeze(machine.folder)
            with driver.still(machine.folder):
                pass
            assert machine.seen.condition == "paused"

    def test_it_pauses_itself_in_time(self, driver: Driver, root: Path, image: Image) -> None:
        if driver.probe(root).memory_pause == "none":
            return
        with self.machine(driver, root, image) as machine, self.machine(driver, root, image) as control:
            driver.timers(machine.folder, pause_after_ms=200)
            eventually(lambda: machine.seen.condition == "paused")
            assert machine.seen.reason == "timeout"
            assert control.seen.condition == "running"
            assert machine.run("echo awake").stdout == "awake\n"  # who comes wakes it

    def test_files_outlive_the_processes(self, driver: Driver, root: Path, image: Image) -> None:
        if driver.probe(root).files == "memory":
            return
        with self.machine(driver, root, image) as machine:
            machine.run("echo kept > /workspace/file; rm -f /workspace/nothing")
            machine.drop()
            driver.kill(machine.folder, "suite")
            assert machine.seen.condition == "stopped"
            assert machine.seen.reason == "suite"
            driver.kill(machine.folder, "again")  # it is no error
            driver.release(machine.folder)
            limits = Limits(memory_mb=256)
            spec = BoxSpec(id=machine.folder.name, hostname="suite", image=image, limits=limits, env={}, root=False)
            driver.start(machine.folder, driver.prepare(machine.folder, spec))
            assert machine.run("cat /workspace/file").stdout == "kept\n"

    def test_what_cannot_start_leaves_nothing(self, driver: Driver, root: Path, image: Image) -> None:
        broken = dataclasses.replace(image, layers=(root / "layers" / "no-such-layer",))
        try:
            with self.machine(driver, root, broken):
                raise AssertionError("it started without its files")
        except SandboxError:
            pass
        assert list((root / "boxes").iterdir()) == []

    def test_limits_that_it_claims(self, driver: Driver, root: Path, image: Image) -> None:
        claimed = driver.probe(root).limits
        with (
            self.machine(driver, root, image) as machine,
            self.machine(driver, root, image, limits=Limits(memory_mb=256, pids=500)) as control,
        ):
            many = "i=0; while [ $i -lt 120 ]; do sleep 2 & i=$((i+1)); done; echo all"
            if claimed.pids != "none":
                assert "all" not in machine.run(many).stdout
            assert control.run(many).stdout == "all\n"

    def test_usage(self, driver: Driver, root: Path, image: Image) -> None:
        with self.machine(driver, root, image) as machine:
            used = driver.usage(machine.folder)
            assert all(isinstance(value, int) and value >= 0 for value in used.values())
