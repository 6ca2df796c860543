"""Forks and snapshots without a copy: how long they take, what they show, and what is left when whoever makes one is killed."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time

import pytest

from gloveport import Sandbox
from gloveport.machines import uppers
from gloveport.machines.driver import Driver
from gloveport.machines.estate import estate
from gloveport.machines.images.layers import LayerStore
from gloveport.machines.images.trees import OPAQUE, make_whiteout, open_folder, stack_tree
from gloveport.machines.namespace.driver import NamespaceDriver
from gloveport.machines.registry import Registry
from gloveport.machines.state import lock_held

from .conftest import ADMIN, eventually

TREE = (
    "cd / && find workspace usr/local var/tmp srv 2>/dev/null | sort | while read -r f; do stat -c '%n %F %a' $f; done; "
    "cat $(find /workspace -type f | sort)"
)


@pytest.fixture(autouse=True)
def frozen_here(state):
    if Sandbox.capabilities().fork_files != "relayer":
        pytest.skip("files are copied on this host")


def layers_of(sandbox):
    return estate().record(sandbox.id).options["image"]["layers"]


def top_of(sandbox):
    return estate().root / layers_of(sandbox)[0]


def upper_of(sandbox):
    return estate().uppers.current(estate().folder(sandbox.id))


def tree_of(sandbox):
    return sandbox.commands.run(TREE, user=ADMIN).stdout


def disk():
    """Bytes of the state directory, each file once."""
    seen = {}
    for folder, _, names in os.walk(estate().root):
        for name in names:
            info = os.lstat(os.path.join(folder, name))
            seen[info.st_dev, info.st_ino] = info.st_blocks * 512
    return sum(seen.values())


def test_the_amount_of_files_does_not_count():
    def fork_seconds(sandbox):
        sandbox.commands.run("touch again$$")
        began = time.perf_counter()
        (twin,) = sandbox.fork()
        took = time.perf_counter() - began
        twin.kill()
        return took

    with Sandbox.create() as small, Sandbox.create() as large:
        small.commands.run("head -c 1M /dev/zero > /workspace/file")
        large.commands.run("head -c 300M /dev/zero > /workspace/file")
        before = (upper_of(large) / "workspace/file").stat()
        whole = disk()
        took = {name: [fork_seconds(each) for _ in range(5)] for name, each in (("small", small), ("large", large))}
        after = next((estate().root / text / "workspace/file").stat() for text in layers_of(large)[::-1][1:])
        assert (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)
        assert disk() - whole < 50 << 20
        # To copy it takes twenty times as long.
        assert statistics.median(took["large"]) < 6 * statistics.median(took["small"])


def test_the_parent_goes_on_and_the_child_stays(sandbox):
    run = sandbox.commands.run
    run("echo one > file; mkdir d; echo x > d/x")
    ticking = sandbox.commands.start("i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done", cwd="/")
    told = ticking.output()
    next(told)
    (twin,) = sandbox.fork()
    with twin:
        assert upper_of(sandbox).name == "upper.1"
        for _ in range(20):
            next(told)
        run("echo two > file; rm -r d; echo new > new")
        assert twin.commands.run("cat file d/x; ls").stdout == "one\nx\nd\nfile\n"
        twin.commands.run("echo three > file")
        assert run("cat file; ls").stdout == "two\nfile\nnew\n"
    assert next(told)[0] == "stdout"
    ticking.kill()


def test_what_stands_in_the_way_has_it_copied(sandbox):
    sandbox.commands.run("echo one > file")
    job = sandbox.commands.start("sleep 600", cwd="/workspace")
    place = upper_of(sandbox) / "workspace/file"
    (twin,) = sandbox.fork()
    with twin:
        assert upper_of(sandbox).name == "upper"
        assert (top_of(twin) / "workspace/file").stat().st_ino != place.stat().st_ino
        assert twin.files.read_text("/workspace/file") == "one\n"
    assert [info.state for info in sandbox.commands.list() if info.id == job.id] == ["running"]
    job.kill()


def test_nothing_written_is_no_layer(sandbox):
    count = len(layers_of(sandbox))
    sandbox.commands.run("true")
    sandbox.snapshot("a")
    assert len(layers_of(sandbox)) == count
    sandbox.commands.run("touch x")
    sandbox.snapshot("b")
    sandbox.snapshot("c")
    assert len(layers_of(sandbox)) == count + 1
    for name in "abc":
        assert Sandbox.delete_snapshot(name)


def test_twenty_deep(sandbox):
    made, last = [], sandbox
    try:
        for number in range(20):
            last.commands.run(
                f"echo {number} > all{number}; rm -f gone; rm -rf dir; mkdir dir; touch dir/{number}; "
                f"test $(({number} % 2)) = 0 && touch gone; true"
            )
            made += last.fork()
            last = made[-1]
        assert last.commands.run("cat all* | sort -n | tail -1; ls | wc -l; ls dir; ls gone").stdout == "19\n21\n19\n"
        assert made[9].commands.run("ls dir gone; ls all* | wc -l").stdout.split() == ["gone", "dir:", "10", "11"]
    finally:
        for each in made:
            each.kill()


def test_paused_and_stopped_ones(sandbox):
    sandbox.files.write("/workspace/file", "one")
    number = (upper_of(sandbox) / "workspace/file").stat().st_ino
    sandbox.pause()
    sandbox.snapshot("paused")
    assert sandbox.status == "paused"
    assert (top_of(sandbox) / "workspace/file").stat().st_ino == number
    sandbox.files.write("/workspace/second", "two")
    crash(sandbox)
    sandbox.snapshot("stopped")
    sandbox.snapshot("again")
    with Sandbox.create(from_snapshot="again") as twin:
        assert twin.commands.run("cat file second").stdout == "onetwo"
    assert Sandbox.connect(sandbox.id).found == "restarted"
    assert sandbox.commands.run("cat file second").stdout == "onetwo"
    assert sorted(name for name in os.listdir(estate().folder(sandbox.id)) if name.startswith(("upper", "work"))) == [
        "upper",
        "work",
    ]
    for name in ("paused", "stopped", "again"):
        assert Sandbox.delete_snapshot(name)


def crash(sandbox):
    folder = estate().folder(sandbox.id)
    told = dict(part.split("=", 1) for part in (folder / "state").read_text().split())
    os.kill(int(told["holder"]), signal.SIGKILL)
    eventually(lambda: not lock_held(folder))


# ── whoever makes it is killed ───────────────────────────────────────────────────────────────────────────────────────


def after(owner, name, count=1):
    """Dies when that was done so often."""

    def arm():
        act, done = getattr(owner, name), [0]

        def fatal(*given, **more):
            result = act(*given, **more)
            done[0] += 1
            if done[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, fatal)

    return arm


def before(owner, name):
    def arm():
        setattr(owner, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))

    return arm


STEPS = {
    "the machine writes to a new layer": after(NamespaceDriver, "push_layer"),
    "it is said what becomes of the old one": after(uppers, "_write"),
    "the list says so": after(Registry, "change"),
    "its place is not yet made": before(LayerStore, "fill"),
    "its place is made": before(os, "rename"),
    "it has been moved": after(LayerStore, "fill"),
    "the new machine is known": after(Registry, "add"),
}


def die(sandbox, arm, act):
    """In a process that is killed at that point. Gives whether it came to it."""
    child = os.fork()
    if child == 0:
        try:
            arm()
            act(Sandbox.connect(sandbox.id) if lock_held(estate().folder(sandbox.id)) else sandbox)
        finally:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def clean():
    estate().sweep()
    estate().collect(young=0)


def live_layers():
    """Also those of snapshots that other tests keep."""
    return {name for name in os.listdir(estate().layers.folder) if name.startswith(("live-", ".staging"))}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lives", [True, False], ids=["running", "stopped"])
def test_who_is_killed_loses_nothing(sandbox, step, lives):
    before = live_layers()
    sandbox.commands.run("echo one > one; mkdir d; touch d/x")
    sandbox.snapshot("first")
    sandbox.commands.run("echo two > two; rm -r d; mkdir d; touch d/y")
    if not lives:
        crash(sandbox)
    machines = len(estate().registry.find())
    killed = die(sandbox, STEPS[step], lambda other: other.fork())
    assert killed == (lives or step != "the machine writes to a new layer")
    clean()
    for info in Sandbox.list():  # what it came to make
        if info.id != sandbox.id:
            Sandbox.kill_by_id(info.id)
    assert len(estate().registry.find()) <= machines
    told = "one\ntwo\nd:\ny\n"
    if lives:
        assert sandbox.commands.run("cat one two; ls d/; touch three").stdout == told.replace("d:\n", "")
        with sandbox.fork()[0] as twin:
            assert twin.commands.run("cat one two; ls three").stdout == "one\ntwo\nthree\n"
        crash(sandbox)
        clean()
    assert Sandbox.connect(sandbox.id).found == "restarted"
    assert sandbox.commands.run("cat one two; ls d/; rm -f three; ls").stdout == "one\ntwo\ny\nd\none\ntwo\n"
    with sandbox.fork()[0] as twin:
        assert twin.commands.run("cat one two; ls d").stdout == "one\ntwo\ny\n"
    assert Sandbox.delete_snapshot("first")
    sandbox.kill()
    old = time.time() - 3600
    for name in os.listdir(estate().layers.folder):
        os.utime(estate().layers.folder / name, (old, old))
    clean()
    assert live_layers() <= before


def test_a_request_of_the_dead_changes_nothing(sandbox):
    """It had named the layer of its time."""
    sandbox.commands.run("echo one > one")
    sandbox.snapshot("a")
    sandbox.commands.run("echo two > two")
    driver: Driver = estate().drivers["namespace"]
    folder = estate().folder(sandbox.id)
    lowers = [estate().root / text for text in layers_of(sandbox)]
    assert driver.push_layer(folder, "upper", lowers) == "stale"
    assert driver.push_layer(folder, "upper.1", [estate().root / "nothing"]) == "busy"
    assert upper_of(sandbox).name == "upper.1"
    assert driver.push_layer(folder, "upper.1", lowers) == "done"  # the control
    assert sandbox.commands.run("cat one two").stdout == "one\ntwo\n"
    with sandbox.fork()[0] as twin:  # and what nobody has put on the list is found
        assert twin.commands.run("cat one two").stdout == "one\ntwo\n"
    assert Sandbox.delete_snapshot("a")


def test_a_change_of_rules_meanwhile_keeps_the_layers(sandbox):
    """Who changes some of its options has read them before."""
    sandbox.commands.run("echo one > one")
    sandbox.snapshot("a")
    kept = layers_of(sandbox)
    estate().update(sandbox.id, options={"network": None})
    assert layers_of(sandbox) == kept
    assert estate().record(sandbox.id).options["limits"]
    assert Sandbox.delete_snapshot("a")


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_become_one(sandbox, monkeypatch):
    """Whatever hides, replaces or adds in each: the one that is made of them shows the same."""
    monkeypatch.setattr(uppers, "_MOST", 4)
    dice = random.Random(7)
    names = ["a", "b", "b/c", "b/d", "/usr/local/lib", "/usr/local/new", "/var/tmp/x"]
    acts = (
        "rm -rf {0}",
        "rm -rf {0}; mkdir -p {0}",
        "mkdir -p {0}; touch {0}/{1}",
        "rm -rf {0}; echo {1} > {0}",
        "rm -rf {0}; ln -s nowhere {0}",
        "test -d {0} && rm -rf {0}/*; true",
        "test -f {0} && ln -f {0} hard{1}; true",
        "mkdir -p {0}; mkfifo {0}/p{1}; chmod 700 {0}",
    )
    base, most = len(layers_of(sandbox)), 0
    for number in range(14):
        for _ in range(4):
            sandbox.commands.run(dice.choice(acts).format(dice.choice(names), number), user=ADMIN)
        shown = tree_of(sandbox)
        (twin,) = sandbox.fork()
        with twin:
            assert tree_of(twin) == shown == tree_of(sandbox)
        most = max(most, len(layers_of(sandbox)) - base)
    assert most == 4
    crash(sandbox)
    assert Sandbox.connect(sandbox.id).found == "restarted"
    assert tree_of(sandbox) == shown


def test_layers_on_each_other(tmp_path):
    """Of two layers, and what is below them, a third does not show more."""
    low, high, out = (tmp_path / name for name in ("low", "high", "out"))
    for folder in (low, high, out):
        folder.mkdir()

    def made(layer, path, text=""):
        (layer / path).parent.mkdir(parents=True, exist_ok=True)
        (layer / path).write_text(text)

    made(low, "both/low", "1")
    made(high, "both/high", "2")
    made(low, "hidden/low")
    made(high, "hidden/high")
    os.setxattr(high / "hidden", OPAQUE, b"y")
    made(low, "was/opaque")
    os.setxattr(low / "was", OPAQUE, b"y")
    made(high, "was/more")
    made(low, "file", "of low")
    made(high, "file/now", "a folder")
    made(low, "gone", "x")
    made(low, "kept", "x")
    with_descriptor = [(low, "dead"), (high, "gone"), (high, "other")]
    for layer, name in with_descriptor:
        folder = open_folder(layer)
        make_whiteout(name, folder)
        os.close(folder)
    made(high, "dead/again")
    target = open_folder(out)
    for layer in (low, high):
        source = open_folder(layer)
        stack_tree(source, target)
        os.close(source)
    os.close(target)

    def opaque(name):
        try:
            return os.getxattr(out / name, OPAQUE) == b"y"
        except OSError:
            return False

    assert sorted(os.listdir(out)) == ["both", "dead", "file", "gone", "hidden", "kept", "other", "was"]
    assert {name: sorted(os.listdir(out / name)) for name in ("both", "dead", "file", "hidden", "was")} == {
        "both": ["high", "low"],
        "dead": ["again"],
        "file": ["now"],
        "hidden": ["high"],
        "was": ["more", "opaque"],
    }
    assert [name for name in ("both", "dead", "file", "hidden", "was") if opaque(name)] == [
        "dead",
        "file",
        "hidden",
        "was",
    ]
    for name in ("gone", "other"):  # what is below them has it perhaps
        info = os.lstat(out / name)
        assert (info.st_rdev, info.st_mode & 0o170000) == (0, 0o020000)
