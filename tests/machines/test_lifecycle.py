"""What becomes of machines: paused, woken, stopped, deleted, by whoever; and that nothing is left of them."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import signal
import time

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gloveport import UNSET, Sandbox
from gloveport.errors import (
    CapabilityError,
    SandboxGoneError,
    SandboxNotFoundError,
    SandboxPausedError,
    ValidationError,
)
from gloveport.machines.estate import estate
from gloveport.machines.namespace.driver import NamespaceDriver

from .conftest import boxes_alive, eventually, groups_left
from .hands import Hand


def told(sandbox):
    """What its supervisor wrote."""
    line = (estate().folder(sandbox.id) / "state").read_text()
    return dict(part.partition("=")[::2] for part in line.split())


@pytest.fixture
def hand(state):
    hand = Hand()
    yield hand
    hand.close()


def test_memory_is_kept_while_it_is_paused(sandbox):
    counter = sandbox.commands.start("i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.01; done")
    eventually(lambda: sandbox.files.exists("/tmp/count"))
    sandbox.pause()
    sandbox.pause()
    assert sandbox.status == "paused"
    before = (estate().folder(sandbox.id) / "upper/tmp/count").read_text()
    time.sleep(0.2)
    assert (estate().folder(sandbox.id) / "upper/tmp/count").read_text() == before
    sandbox.resume()
    assert (sandbox.status, sandbox.found) == ("active", "resumed")
    eventually(lambda: sandbox.files.read_text("/tmp/count").strip() > before.strip() or None)
    assert [info.state for info in sandbox.commands.list() if info.id == counter.id] == ["running"]


def test_a_call_wakes_it_unless_it_may_not(sandbox):
    sandbox.pause()
    assert sandbox.commands.run("echo awake").stdout == "awake\n"
    assert sandbox.status == "active"
    sandbox.update(auto_resume=False)
    sandbox.pause()
    with pytest.raises(SandboxPausedError, match="resume"):
        sandbox.commands.run("true")
    with pytest.raises(SandboxPausedError):
        sandbox.files.read("/etc/passwd")
    assert sandbox.status == "paused"
    assert Sandbox.connect(sandbox.id).found == "resumed"
    assert sandbox.commands.run("echo awake").stdout == "awake\n"


def test_killing(state):
    sandbox = Sandbox.create()
    folder = estate().folder(sandbox.id)
    assert sandbox.kill()
    assert not sandbox.kill()
    assert not Sandbox.kill_by_id(sandbox.id)
    assert not Sandbox.kill_by_id("box-that-never-was")
    assert not folder.exists()
    assert groups_left(state, [sandbox.id]) == []
    with pytest.raises(SandboxGoneError) as error:
        sandbox.commands.run("true")
    assert (error.value.reason, error.value.files_kept) == ("killed", False)
    for call in (lambda: Sandbox.connect(sandbox.id), sandbox.get_info, sandbox.pause):
        with pytest.raises((SandboxNotFoundError, SandboxGoneError), match="killed"):
            call()
    for wrong in ("../etc", "", "a/b", "A", None, 7, "x" * 80):
        with pytest.raises(SandboxNotFoundError):
            Sandbox.connect(wrong)


def test_updates(sandbox):
    sandbox.update(metadata={"a": "1"}, timeout_seconds=500, idle_seconds=50, auto_delete_seconds=70)
    info = sandbox.get_info()
    assert (info.metadata, info.timeout_seconds, info.idle_seconds, info.auto_delete_seconds) == (
        {"a": "1"},
        500,
        50,
        70,
    )
    sandbox.update(metadata=UNSET, idle_seconds=None)
    info = sandbox.get_info()
    assert (info.metadata, info.timeout_seconds, info.idle_seconds, info.auto_delete_seconds) == (
        {"a": "1"},
        500,
        None,
        70,
    )
    sandbox.pause()
    assert sandbox.get_info().auto_delete_at is not None
    Sandbox.update_by_id(sandbox.id, metadata=None, auto_delete_seconds=None)
    assert sandbox.status == "paused"  # it does not wake
    assert (sandbox.get_info().metadata, sandbox.get_info().auto_delete_at) == ({}, None)
    for wrong in (
        {"timeout_seconds": 0},
        {"idle_seconds": -1},
        {"metadata": {"a": 1}},
        {"timeout_seconds": float("nan")},
    ):
        with pytest.raises(ValidationError):
            sandbox.update(**wrong)


def test_lists(state):
    with (
        Sandbox.create("first", metadata={"job": "a", "n": "1"}, owner="me") as one,
        Sandbox.create("second", metadata={"job": "a"}) as two,
    ):
        two.pause()
        ids = [one.id, two.id]
        assert [info.id for info in Sandbox.list(metadata={"job": "a"})] == ids
        assert [info.id for info in Sandbox.list(metadata={"job": "a", "n": "1"})] == ids[:1]
        assert [info.id for info in Sandbox.list(metadata={"job": "a"}, status="paused")] == ids[1:]
        assert [info.id for info in Sandbox.list(metadata={"job": "a"}, limit=1, offset=1)] == ids[1:]
        assert [info.id for info in Sandbox.list(owner="me")] == ids[:1]
        assert Sandbox.list(metadata={"job": "b"}) == []
        with pytest.raises(ValidationError, match="status"):
            Sandbox.list(status="sleeping")


def test_times_pass(state):
    """It pauses itself, and deletes itself: nobody has to be there."""
    with Sandbox.create(timeout_seconds=0.3) as sandbox, Sandbox.create(timeout_seconds=300) as control:
        eventually(lambda: sandbox.status == "paused")
        assert sandbox.get_info().reason == "timeout"
        assert control.status == "active"
    with Sandbox.create(idle_seconds=0.3) as sandbox, Sandbox.create(idle_seconds=300) as control:
        eventually(lambda: sandbox.status == "paused")
        assert sandbox.get_info().reason == "idle"
        assert control.status == "active"
    with Sandbox.create(auto_delete_seconds=0) as sandbox, Sandbox.create(auto_delete_seconds=300) as control:
        for each in (sandbox, control):
            each.pause()
        eventually(lambda: not boxes_of(sandbox))
        estate().sweep()
        assert not estate().folder(sandbox.id).exists()
        with pytest.raises(SandboxNotFoundError, match="auto-delete"):
            Sandbox.connect(sandbox.id)
        assert control.commands.run("echo here").stdout == "here\n"


def boxes_of(sandbox):
    return boxes_alive(estate().folder(sandbox.id))


def test_a_dead_holder(sandbox):
    """Its files are kept, and what was in memory is not: that is said."""
    sandbox.files.write("/workspace/kept", "yes")
    sandbox.commands.start("sleep 1000")
    os.kill(int(told(sandbox)["holder"]), signal.SIGKILL)
    eventually(lambda: sandbox.status == "stopped")
    with pytest.raises(SandboxGoneError) as error:
        sandbox.commands.run("true")
    assert error.value.files_kept
    assert "connect" in str(error.value)
    eventually(lambda: not boxes_of(sandbox))
    again = Sandbox.connect(sandbox.id)
    assert (again.found, again.get_info().starts) == ("restarted", 2)
    assert again.files.read_text("/workspace/kept") == "yes"
    assert again.commands.list() == []
    assert Sandbox.connect(sandbox.id).found == "running"


def test_a_restart_that_fails_keeps_the_files(sandbox, monkeypatch):
    """Once and again; while one that has never lived is swept."""
    sandbox.files.write("/workspace/kept", "yes")
    os.kill(int(told(sandbox)["holder"]), signal.SIGKILL)
    eventually(lambda: not boxes_of(sandbox))
    since = estate().seen(sandbox._box.record).since
    with monkeypatch.context() as patch:
        patch.setattr(NamespaceDriver, "_run", lambda *_: "error stage=namespaces errno=1 message=x")
        for _ in range(2):
            with pytest.raises(CapabilityError, match="namespaces"):
                Sandbox.connect(sandbox.id)
            assert (sandbox.status, estate().gone(sandbox.id).files_kept) == ("stopped", True)
            assert estate().seen(sandbox._box.record).since == since  # `auto_delete` goes on
        never = estate().folder("box-never")
        never.mkdir()
        estate().registry.add(dataclasses.replace(estate().record(sandbox.id), id="box-never"))
        with pytest.raises(CapabilityError):
            estate().wake("box-never")
        swept = estate().sweep()
        assert "box-never" in swept and sandbox.id not in swept
    again = Sandbox.connect(sandbox.id)
    assert (again.found, again.files.read_text("/workspace/kept")) == ("restarted", "yes")


def test_who_is_being_started_is_not_gone(sandbox, monkeypatch):
    os.kill(int(told(sandbox)["holder"]), signal.SIGKILL)
    eventually(lambda: not boxes_of(sandbox))
    seen = []

    def run(_, folder):
        lock = os.open(folder / "lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        seen.append(sandbox.status)
        os.close(lock)
        return "error stage=overlay errno=28 message=x"

    with monkeypatch.context() as patch:
        patch.setattr(NamespaceDriver, "_run", run)
        with pytest.raises(CapabilityError):
            Sandbox.connect(sandbox.id)
    assert seen == ["active"]


def test_a_dead_supervisor_changes_nothing(sandbox):
    process = sandbox.commands.start("sleep 1000")
    for paused in (False, True):
        if paused:
            sandbox.pause()
        before = told(sandbox)["restarts"]
        os.kill(int(told(sandbox)["supervisor"]), signal.SIGKILL)
        eventually(lambda: told(sandbox)["restarts"] != before)
        assert sandbox.status == ("paused" if paused else "active")
        assert [info.state for info in sandbox.commands.list() if info.id == process.id] == ["running"]


def test_what_others_left_is_swept(state):
    found = estate()
    with Sandbox.create() as living:
        orphan = found.folder("box-orphan")
        (orphan / "upper" / "deep").mkdir(parents=True)
        (orphan / "upper" / "deep").chmod(0)
        stopped = Sandbox.create(auto_delete_seconds=0.2)
        kept = Sandbox.create(auto_delete_seconds=300)
        for each in (stopped, kept):
            os.kill(int(told(each)["holder"]), signal.SIGKILL)
        eventually(lambda: stopped.status == kept.status == "stopped")
        time.sleep(0.25)
        swept = found.sweep()
        assert {"box-orphan", stopped.id} <= set(swept)
        assert not {living.id, kept.id} & set(swept)
        assert not orphan.exists()
        assert not found.folder(stopped.id).exists()
        assert living.commands.run("echo well").stdout == "well\n"
        assert kept.kill()


def test_a_machine_outlives_who_made_it(hand):
    id = hand("create", None, name="outlives")["ok"]  # noqa: A001
    hand("run", id, "echo kept > /workspace/a; sleep 1000 >/dev/null 2>&1 &")
    os.kill(hand.process.pid, signal.SIGKILL)
    hand.process.wait()
    with Sandbox.connect(id) as sandbox:
        assert sandbox.found == "running"
        assert sandbox.files.read_text("/workspace/a") == "kept\n"
        assert (
            sandbox.commands.run(
                "ps ax 2>/dev/null | grep -c '[s]leep 1000' || grep -l sleep /proc/*/comm | wc -l"
            ).stdout.strip()
            == "1"
        )


def test_a_pool_whose_process_died(hand, state):
    program = (
        "import os, sys\nfrom gloveport import Sandbox\npool = Sandbox.pool(2)\npool.__enter__()\n"
        "print(pool.create('taken').id, flush=True)\nos.kill(os.getpid(), 9)"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    taken = done.stdout.strip()
    waiting = [record.id for record in estate().registry.find() if record.pool]
    assert waiting
    assert set(waiting) <= set(estate().sweep())
    with Sandbox.connect(taken) as sandbox:  # what was taken is not the pool's any more
        assert sandbox.commands.run("echo well").stdout == "well\n"


class Lifecycle(RuleBasedStateMachine):
    """One machine in the hands of three processes: this one and two others. What each does, all see."""

    hands: tuple = ()
    who = st.integers(0, 2)

    def __init__(self):
        super().__init__()
        self.id = Sandbox.create(memory_mb=64, timeout_seconds=None).id
        self.status, self.memory, self.wakes = "active", True, True
        self.metadata = {}

    def act(self, who, what, *arguments, **options):
        answer = self.hands[who](what, self.id, *arguments, **options)
        if self.status == "deleted" and what not in ("kill", "status"):
            assert answer.get("error") in ("SandboxNotFoundError", "SandboxGoneError"), answer
        return answer

    @rule(who=who)
    def pause(self, who):
        answer = self.act(who, "pause")
        if self.status == "stopped":
            assert answer["error"] == "SandboxGoneError"
        elif self.status != "deleted":
            assert "ok" in answer, answer
            self.status = "paused"

    @rule(who=who, what=st.sampled_from(["connect", "resume"]))
    def wake(self, who, what):
        answer = self.act(who, what)
        if self.status == "deleted":
            return
        assert "ok" in answer, answer
        if what == "connect":
            assert answer["ok"] == {"active": "running", "paused": "resumed", "stopped": "restarted"}[self.status]
        self.status = "active"

    @rule(who=who)
    def run(self, who):
        answer = self.act(who, "run", "echo here")
        if self.status == "deleted":
            return
        if self.status == "stopped":
            assert answer["error"] == "SandboxGoneError"
        elif self.status == "paused" and not self.wakes:
            assert answer["error"] == "SandboxPausedError"
        else:
            assert answer.get("ok") == "here\n", answer
            self.status = "active"

    @rule(who=who, wakes=st.booleans(), metadata=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")))
    def update(self, who, wakes, metadata):
        answer = self.act(who, "update", auto_resume=wakes, metadata=metadata)
        if self.status != "deleted":
            assert "ok" in answer, answer
            self.wakes, self.metadata = wakes, metadata

    @precondition(lambda self: self.status in ("active", "paused"))
    @rule()
    def holder_dies(self):
        line = (estate().folder(self.id) / "state").read_text()
        os.kill(int(line.partition("holder=")[2].split()[0]), signal.SIGKILL)
        eventually(lambda: not boxes_alive(estate().folder(self.id)))
        self.status = "stopped"

    @precondition(lambda self: self.status != "deleted")
    @rule(who=who, really=st.integers(0, 4))
    def kill(self, who, really):
        if really == 0:
            assert self.act(who, "kill") == {"ok": True}
            self.status = "deleted"

    @precondition(lambda self: self.status == "deleted")
    @rule(who=who)
    def kill_again(self, who):
        assert self.act(who, "kill") == {"ok": False}

    @invariant()
    def all_see_the_same(self):
        assert [hand("status", self.id)["ok"] for hand in self.hands] == [self.status] * 3
        record = estate().registry.get(self.id)
        assert (record.ended is not None) == (self.status == "deleted")
        if self.status != "deleted":
            assert record.metadata == self.metadata

    def teardown(self):
        Sandbox.kill_by_id(self.id)
        assert not estate().folder(self.id).exists()


def local(what, *arguments, **options):
    from .hands import do

    try:
        return {"ok": do(what, *arguments, **options)}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def test_as_a_model(state):
    with contextlib.ExitStack() as stack:
        others = [Hand(), Hand()]
        for hand in others:
            stack.callback(hand.close)
        kind = type("Lifecycle", (Lifecycle,), {"hands": (local, *others)})
        run_state_machine_as_test(
            kind,
            settings=settings(
                max_examples=50,
                stateful_step_count=18,
                deadline=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_several_processes_fight_for_one(sandbox):
    hands = [Hand() for _ in range(4)]
    try:
        for number, hand in enumerate(hands):
            hand.begin("fight", sandbox.id, 25, number)
        for hand in hands:
            while not hand.ready(0.2):
                sandbox.resume()  # a command in a machine that was paused last waits until somebody wakes it
        answers = [hand.end() for hand in hands]
    finally:
        for hand in hands:
            hand.close()
    assert answers == [{"ok": []}] * 4
    sandbox.resume()
    assert sandbox.commands.run("echo well").stdout == "well\n"
    assert sandbox.get_info().starts == 1


def test_a_storm(state):
    """Many are made, used and deleted by several processes; and nothing is left."""
    before = {info.id for info in Sandbox.list()}
    hands = [Hand() for _ in range(4)]
    try:
        for number, hand in enumerate(hands):
            hand.begin("storm", 50, number)
        answers = [hand.end() for hand in hands]
    finally:
        for hand in hands:
            hand.close()
    assert answers == [{"ok": 50}] * 4
    assert {info.id for info in Sandbox.list()} == before
    assert set(os.listdir(state / "boxes")) == before
    ended = [record.id for record in estate().registry.find(ended=True)]
    assert len(ended) >= 200
    assert groups_left(state, ended) == []
    assert len(boxes_alive(state)) == sum(len(boxes_alive(state / "boxes" / one)) for one in before)


def test_a_machine_that_was_deleted_elsewhere(state):
    """Another handle deleted it: this one says so, whatever is asked of it."""
    sandbox = Sandbox.create()
    other = Sandbox.connect(sandbox.id)
    other.commands.run("true")
    sandbox.kill()
    for ask in (
        other.get_info,
        other.usage,
        other.pause,
        other.resume,
        other.fork,
        other.snapshot,
        lambda: other.preview(8000),
    ):
        with pytest.raises(SandboxNotFoundError, match="was deleted"):
            ask()
    for ask in (lambda: other.commands.run("true"), lambda: other.files.read("/etc/hostname")):
        with pytest.raises(SandboxGoneError):
            ask()
    assert not other.kill()
