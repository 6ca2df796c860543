"""What machines begin with: images, archives, templates, snapshots; and what forks have."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile

import pytest

from gloveport import Sandbox
from gloveport.errors import (
    CapabilityError,
    SandboxError,
    SandboxImageError,
    SnapshotNotFoundError,
    TemplateNotFoundError,
    ValidationError,
)
from gloveport.machines.estate import estate
from gloveport.machines.images.fitting import known_user
from gloveport.machines.images.owners import Owners

from .conftest import ADMIN


def small_root(path, extra=()):
    """An archive of a root file system: a shell and its libraries."""
    shell = next(p for p in ("/bin/busybox", "/bin/dash", "/bin/sh") if os.path.exists(p))
    shell = os.path.realpath(shell)
    needed = subprocess.run(["ldd", shell], capture_output=True, text=True, check=False).stdout
    libraries = {word for word in needed.split() if word.startswith("/")}
    with tarfile.open(path, "w") as archive:
        for place in sorted(libraries):
            archive.add(os.path.realpath(place), place, recursive=False)
        archive.add(shell, "bin/sh", recursive=False)
        for name, text in {
            "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
            "etc/hello": "from the image\n",
            **dict(extra),
        }.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def test_an_archive_of_a_root_file_system(tmp_path):
    path = small_root(tmp_path / "root.tar")
    with Sandbox.create(image=path) as sandbox:
        told = sandbox.commands.run(
            'read line < /etc/hello; echo "$line"; pwd; [ -e /usr/bin/python3 ] && echo host; echo > /etc/hello; echo > own'
        )
        assert told.stdout == "from the image\n/workspace\n"
        assert ("denied" in told.stderr) == (ADMIN == "root")  # the image's files are root's
        assert (
            sandbox.files.read_text("/etc/passwd")
            == "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
        )
        assert [entry.name for entry in sandbox.files.list("/workspace")] == ["own"]
        assert sandbox.files.stat("/tmp").mode & 0o7777 == 0o1777
    layers = estate().layers.ids()
    with Sandbox.create(image=str(path)) as again:  # what did not change is not read again
        assert estate().layers.ids() == layers
        assert again.get_info().image.startswith("file/")


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_what_is_no_image(tmp_path, content):
    path = tmp_path / "image.tar"
    if content is not None:
        path.write_bytes(content)
    before = len(Sandbox.list())
    with pytest.raises(SandboxImageError, match=r"image\.tar"):
        Sandbox.create(image=path)
    assert len(Sandbox.list()) == before


def test_names_that_are_not_there():
    with pytest.raises(TemplateNotFoundError, match="host"):
        Sandbox.create(image="no-such-image")
    with pytest.raises(TemplateNotFoundError):
        Sandbox.create(from_template="no-such-template")
    with pytest.raises(SnapshotNotFoundError):
        Sandbox.create(from_snapshot="no-such-snapshot")
    with pytest.raises(ValidationError, match="exclude"):
        Sandbox.create(image="host", from_template="x")
    with pytest.raises(ValidationError):
        Sandbox.create(image="NO NAME")


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ("", "1000 1000"),
        ("app", "77 88"),
        ("app:team", "77 99"),
        ("77", "77 88"),
        ("77:5", "77 5"),
        ("4321", "4321 0"),
        ("root", "0 0"),
        ("0:0", "0 0"),
        ("nobody-knows", "1000 1000"),
        ("app:nobody-knows", "1000 1000"),
        ("70000", "1000 1000"),
        ("../x", "1000 1000"),
    ],
)
def test_the_user_of_an_image(given, ids):
    """The image's own, where it has it; an ordinary user of the host has two to give."""
    accounts = "root:x:0:0::/root:/bin/sh\napp:x:77:88::/srv:/bin/sh\n"
    found = known_user(given, accounts, "root:x:0:\nteam:x:99:\n", Owners(1 << 24))
    assert {"": "1000 1000", "root": "0 0"}.get(found, found.replace(":", " ")) == ids
    alone = known_user(given, accounts, "root:x:0:\nteam:x:99:\n", Owners(None))
    assert alone == ("root" if ids == "0 0" else "")


def test_commands_are_those_of_the_images_user(tmp_path):
    small_root(tmp_path / "root.tar", {"etc/passwd": "root:x:0:0::/root:/bin/sh\napp:x:77:88::/srv:/bin/sh\n"}.items())
    docker = tmp_path / "image.tar"
    data = (tmp_path / "root.tar").read_bytes()
    config = json.dumps(
        {
            "config": {"User": "app", "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "Layers": ["layer.tar"], "RepoTags": None}]).encode()
    with tarfile.open(docker, "w") as archive:
        for name, text in (("manifest.json", manifest), ("config.json", config), ("layer.tar", data)):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    with Sandbox.create(image=docker) as sandbox:
        told = sandbox.commands.run(
            "while read -r name value; do case $name in Uid:) echo $value;; esac; done < /proc/self/status"
        )
        assert told.stdout.split()[:1] == ["77" if os.geteuid() == 0 else "1000"]


def test_snapshots(sandbox):
    run = sandbox.commands.run
    run("echo one > kept; mkdir d; echo x > d/inner; ln -s kept link; ln kept hard; chmod 600 kept; echo $$ > /tmp/t")
    run("rm -rf /var/log", user=ADMIN)  # of the image: hidden, not only gone
    first = sandbox.snapshot("first")
    run("echo two > kept; rm -r d")
    second = sandbox.snapshot()
    assert [shot.id for shot in sandbox.snapshots()] == [first.id, second.id]
    assert {shot.id for shot in Sandbox.list_snapshots()} >= {first.id, second.id}
    assert first.size_bytes > 0
    with pytest.raises(SandboxError, match="already named"):
        sandbox.snapshot("first")
    with Sandbox.create(from_snapshot="first") as old, Sandbox.create(from_snapshot=second) as new:
        assert old.commands.run("cat kept d/inner; stat -c %a:%h:%U kept").stdout == "one\nx\n600:2:user\n"
        assert not old.files.exists("/var/log")
        assert new.commands.run("cat kept; ls").stdout == "two\nhard\nkept\nlink\n"
        old.files.write("/workspace/kept", "three")
        assert new.commands.run("cat kept").stdout == sandbox.commands.run("cat kept").stdout == "two\n"
        assert Sandbox.delete_snapshot("first")
        assert not Sandbox.delete_snapshot("first")
        assert old.files.read_text("/workspace/d/inner") == "x\n"  # what stands on it keeps its files
    assert Sandbox.delete_snapshot(second)


def test_a_snapshot_of_what_is_paused_or_stopped(sandbox):
    sandbox.files.write("/workspace/a", "b")
    sandbox.pause()
    shot = sandbox.snapshot()
    assert sandbox.status == "paused"
    with Sandbox.create(from_snapshot=shot) as other:
        assert other.files.read_text("/workspace/a") == "b"
    assert Sandbox.delete_snapshot(shot)


def test_templates(sandbox):
    sandbox.files.write("/workspace/tool", "ready")
    sandbox.save_template("tools:1")
    with Sandbox.create(from_template="tools:1") as one, Sandbox.create(image="tools:1") as two:
        assert one.files.read_text("/workspace/tool") == two.files.read_text("/workspace/tool") == "ready"
        assert one.get_info().image == "tools:1"
        assert one.commands.run("python3 -c 'print(6*7)'").stdout in ("42\n", "")
    for name in ("host", "debian", "Not A Name", "../x", ""):
        with pytest.raises(ValidationError):
            sandbox.save_template(name)
    assert estate().images.remove("tools:1")


def test_forks(sandbox):
    sandbox.files.write("/workspace/shared", "before")
    process = sandbox.commands.start("while :; do sleep 0.05; done")
    forks = sandbox.fork(3)
    try:
        assert len({sandbox.id, *(fork.id for fork in forks)}) == 4
        for number, fork in enumerate(forks):
            assert fork.files.read_text("/workspace/shared") == "before"
            fork.files.write("/workspace/shared", str(number))
        assert [fork.files.read_text("/workspace/shared") for fork in forks] == ["0", "1", "2"]
        assert sandbox.files.read_text("/workspace/shared") == "before"
        assert [info.state for info in sandbox.commands.list() if info.id == process.id] == ["running"]
        assert forks[0].commands.list() == []  # memory is not copied
    finally:
        for fork in forks:
            fork.kill()
    before = len(Sandbox.list())
    with pytest.raises(CapabilityError) as error:
        sandbox.fork(memory=True)
    assert error.value.missing == ("fork",)
    assert len(Sandbox.list()) == before
    for wrong in (0, -1, 101, True):
        with pytest.raises(ValidationError):
            sandbox.fork(wrong)


def test_copies_are_removed_when_nothing_stands_on_them(sandbox):
    found = estate()
    sandbox.files.write("/workspace/a", "b")
    (fork,) = sandbox.fork()
    layer = os.path.basename(os.path.dirname(found.record(fork.id).options["image"]["layers"][0]))
    assert layer in found.layers
    assert layer not in found.collect(young=0)  # the control: a machine stands on it
    fork.kill()
    assert layer not in found.collect(young=0)  # the one that it was forked from does, too
    sandbox.kill()
    assert layer not in found.collect()  # young: somebody may be about to use it
    assert layer in found.collect(young=0)
    assert layer not in found.layers


def test_hostile_trees_are_copied_and_removed(sandbox):
    """Links out, folders nobody may read, pipes, deep nests: a copy has them as they are, and nothing outside is touched."""
    sandbox.commands.run(
        "ln -s /etc/passwd out; ln -s ../../../../../../etc up; mkdir -m 000 shut; mkfifo pipe;"
        "d=.; for i in $(seq 60); do d=$d/x; done; mkdir -p $d; touch $d/deep; printf 'x' > \"$(printf 'new\\nline')\""
    )
    with sandbox.fork()[0] as twin:
        assert twin.commands.run(
            "readlink out up; stat -c %a:%F shut pipe; find . -name deep | wc -l; ls | wc -l"
        ).stdout == ("/etc/passwd\n../../../../../../etc\n0:directory\n644:fifo\n1\n7\n")


def test_trees_too_deep_are_refused_by_name(sandbox):
    sandbox.commands.run("for i in $(seq 500); do mkdir x && cd -P x || exit; done", timeout_seconds=60)
    sandbox.commands.start("sleep 600", cwd="/workspace")  # which is in the way of anything but a copy
    before = len(Sandbox.list())
    with pytest.raises(SandboxError, match="nested"):
        sandbox.fork()
    assert len(Sandbox.list()) == before
    assert sandbox.commands.run("echo well").stdout == "well\n"


@pytest.mark.registry
def test_debian():
    """Fetched by this system's apt, configured in a machine; made once."""
    if os.geteuid() != 0 or not os.path.exists("/usr/bin/apt-get"):
        pytest.skip("a Debian image is made by root, with apt-get")
    with Sandbox.create(image="debian") as sandbox:
        told = sandbox.commands.run(
            "dpkg --audit; git --version; python3 -c 'print(6 * 7)'; id -un; touch mine && echo ok"
        )
        assert told.stdout.splitlines()[1:] == ["42", "user", "ok"]
        layers = estate().layers.ids()
        owners = sandbox.commands.run(
            "stat -c %U /etc/shadow /home/user; dpkg -l | grep -c '^ii'", user="root"
        ).stdout.split()
        assert owners[:2] == ["root", "user"]
        assert int(owners[2]) > 80
        with Sandbox.create(image="debian"):
            assert estate().layers.ids() == layers
