"""Files of machines."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import threading
import zipfile

import anyio
import pytest

from gloveport import AsyncSandbox
from gloveport.errors import (
    FileExistsInSandboxError,
    FileNotFoundInSandboxError,
    IsDirectoryInSandboxError,
    LimitExceededError,
    NotDirectoryInSandboxError,
    NotFoundError,
    PermissionInSandboxError,
    SandboxError,
    SandboxFileError,
    ValidationError,
)
from gloveport.machines.filing import FileEvent

from .conftest import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def files(shared):
    shared.commands.run("cd /workspace && rm -rf ./* ./.[!.]*", check=True)
    return shared.files


def test_write_and_read(files, shared):
    assert files.write("/workspace/a/b/c.txt", "häß") == 5
    assert files.read("/workspace/a/b/c.txt") == "häß".encode()
    assert files.read_text("/workspace/a/b/c.txt") == "häß"
    assert files.write("/workspace/a/b/c.txt", b"\x00\xff") == 2
    assert files.read_text("/workspace/a/b/c.txt") == "\x00\ufffd"
    assert files.append("/workspace/a/b/c.txt", "more") == 4
    assert files.read("/workspace/a/b/c.txt") == b"\x00\xffmore"
    assert files.read("/workspace/a/b/c.txt", offset=2, length=2) == b"mo"
    assert files.write("/workspace/empty", "") == 0 and files.read("/workspace/empty") == b""
    files.write("/workspace/run.sh", "#!/bin/sh\necho ran\n", mode=0o755)
    assert shared.commands.run(["/workspace/run.sh"]).stdout == "ran\n"
    files.write_many({"/workspace/1": "one", "/workspace/2": b"two"})
    assert files.read_text("/workspace/2") == "two"


def test_it_is_written_as_the_machines_user(files, shared):
    files.write("/workspace/mine", "x")
    assert shared.commands.run(
        "stat -c %U mine; git init -q . 2>&1 && git status >/dev/null && echo trusted"
    ).stdout in (
        "user\ntrusted\n",
        "user\n",
    )
    if os.geteuid() != 0:
        return  # an ordinary user has one id to give, whose all files are
    with pytest.raises(PermissionInSandboxError):
        files.write("/etc/passwd", "x")
    files.write("/etc/made-by-root", "x", user="root")
    assert files.stat("/etc/made-by-root").uid == 0
    files.remove("/etc/made-by-root", user="root")


@pytest.mark.parametrize("size", [100_000, 262_144, 1_000_001, 30_000_000])
def test_sizes(files, size):
    data = os.urandom(1000) * (size // 1000 + 1)
    data = data[:size]
    assert files.write("/workspace/big", data) == size
    assert files.read("/workspace/big", max_bytes=size) == data
    with pytest.raises(LimitExceededError, match="max_bytes"):
        files.read("/workspace/big", max_bytes=size - 1)


def test_streams(files):
    pieces = (bytes([n % 256]) * 100_000 for n in range(50))
    assert files.write("/workspace/stream", pieces) == 5_000_000
    seen = 0
    for piece in files.read_stream("/workspace/stream"):
        seen += len(piece)
    assert seen == 5_000_000
    half = files.read_stream("/workspace/stream")
    assert next(half)
    half.close()
    assert files.stat("/workspace/stream").size == 5_000_000


def test_a_source_that_fails_leaves_the_old_file(files):
    files.write("/workspace/kept", "old")

    def broken():
        yield b"x" * 300_000
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        files.write("/workspace/kept", broken())
    assert files.read_text("/workspace/kept") == "old"
    eventually(
        lambda: [entry.name for entry in files.list("/workspace")] == ["kept"]
    )  # once the agent has seen that we are gone


def test_looking(files, shared):
    files.write("/workspace/d/f", "12345", mode=0o640)
    shared.commands.run("ln -s f d/link; mkfifo d/pipe")
    info = files.stat("/workspace/d/f")
    assert (info.name, info.path, info.type, info.size, info.mode) == ("f", "/workspace/d/f", "file", 5, 0o640)
    assert files.stat("/workspace/d").is_dir
    assert files.stat("/workspace/d/link").type == "file"
    link = files.stat("/workspace/d/link", follow=False)
    assert (link.type, link.target) == ("link", "f")
    assert [(e.name, e.type) for e in sorted(files.list("/workspace/d"), key=lambda e: e.name)] == [
        ("f", "file"),
        ("link", "link"),
        ("pipe", "pipe"),
    ]
    assert {e.path for e in files.list("/workspace", depth=2)} == {
        "/workspace/d",
        "/workspace/d/f",
        "/workspace/d/link",
        "/workspace/d/pipe",
    }
    assert (
        files.exists("/workspace/d/f") and not files.exists("/workspace/d/g") and not files.exists("/workspace/d/f/g")
    )
    assert files.realpath("/workspace/d/link") == "/workspace/d/f"


def test_changing(files):
    files.make_dir("/workspace/x/y/z")
    files.make_dir("/workspace/x/y/z")
    files.write("/workspace/x/f", "1")
    files.move("/workspace/x/f", "/workspace/x/g")
    assert files.read_text("/workspace/x/g") == "1"
    files.write("/workspace/x/h", "2")
    with pytest.raises(FileExistsInSandboxError):
        files.move("/workspace/x/g", "/workspace/x/h", replace=False)
    files.move("/workspace/x/g", "/workspace/x/h")
    assert files.read_text("/workspace/x/h") == "1"
    files.copy("/workspace/x", "/workspace/w")
    assert files.read_text("/workspace/w/h") == "1" and files.stat("/workspace/w/y/z").is_dir
    files.chmod("/workspace/w/h", 0o600)
    assert files.stat("/workspace/w/h").mode == 0o600
    files.symlink("/workspace/l", "w/h")
    assert files.read_text("/workspace/l") == "1"
    files.remove("/workspace/l")
    assert files.exists("/workspace/w/h")
    with pytest.raises(SandboxFileError):
        files.remove("/workspace/x")
    files.remove("/workspace/x", recursive=True)
    assert not files.exists("/workspace/x")


def test_glob(files):
    files.write_many({f"/workspace/src/{name}": "" for name in ("a.py", "b.txt", "deep/c.py", "deep/deeper/d.py")})
    assert {e.path for e in files.glob("src/*.py")} == {"/workspace/src/a.py"}
    assert {e.path for e in files.glob("**/*.py")} == {
        "/workspace/src/a.py",
        "/workspace/src/deep/c.py",
        "/workspace/src/deep/deeper/d.py",
    }
    assert {e.name for e in files.glob("[ab].*", "/workspace/src")} == {"a.py", "b.txt"}
    for wrong in ("/abs", "../up", ""):
        with pytest.raises(ValidationError):
            files.glob(wrong)


def test_watch(files, shared):
    seen, ready = [], threading.Event()

    def look():
        events = files.watch("/workspace")
        ready.set()
        for event in events:
            seen.append(event)
            if event.path.endswith("done"):
                events.close()
                return

    thread = threading.Thread(target=look)
    thread.start()
    ready.wait()
    for _ in range(100):
        if not thread.is_alive():
            break
        shared.commands.run("touch new; echo x > done; sleep 0.05; rm -f done new")
    thread.join(10)
    assert any(event.path == "/workspace/new" for event in seen)


def test_a_watch_sees_what_happens_once_it_is_there(files, shared):
    with contextlib.closing(files.watch("/workspace")) as events:
        files.write("/workspace/first", "x", atomic=False)
        assert next(events) == FileEvent("created", "/workspace/first")
        files.remove("/workspace/first")
        kinds = [next(events).kind]
        while kinds[-1] != "deleted":
            kinds.append(next(events).kind)
        assert kinds[:-1] and set(kinds[:-1]) <= {"modified", "written", "attributes"}
    with pytest.raises(FileNotFoundInSandboxError):
        files.watch("/nowhere")


async def test_a_watch_of_the_async_class(state):
    async with await AsyncSandbox.create() as sandbox:
        async with contextlib.aclosing(await sandbox.files.watch("/workspace", recursive=True)) as events:
            await sandbox.commands.run("mkdir d; mv d e")
            assert [(await anext(events)).kind for _ in range(3)] == ["created", "moved_from", "moved_to"]
        with pytest.raises(FileNotFoundInSandboxError):
            await sandbox.files.watch("/nowhere")


@pytest.mark.parametrize("path", ["relative", "", "/a/../b", "/..", "/a\0b", "/" + "x" * 5000, 7])
def test_paths_that_are_refused(files, path):
    for call in (files.read, files.stat, files.list, files.remove, files.exists, files.make_dir):
        with pytest.raises(ValidationError):
            call(path)
    with pytest.raises(ValidationError):
        files.write(path, "x")


def test_errors_are_those_of_local_files_too(files):
    files.write("/workspace/file", "x")
    with pytest.raises(FileNotFoundInSandboxError) as missing:
        files.read("/workspace/nope")
    assert isinstance(missing.value, FileNotFoundError) and isinstance(missing.value, NotFoundError)
    assert (missing.value.errno, missing.value.filename, missing.value.code) == (2, "/workspace/nope", "file_not_found")
    assert "/workspace/nope" in str(missing.value)
    with pytest.raises(IsDirectoryInSandboxError):
        files.read("/workspace")
    with pytest.raises(NotDirectoryInSandboxError):
        files.list("/workspace/file")
    with pytest.raises(IsADirectoryError):
        files.write("/workspace", "x")
    if os.geteuid() == 0:
        with pytest.raises(PermissionError):
            files.read("/root/secret")
    for protected in ("/", "/workspace", "/home/user", "/home"):
        with pytest.raises(SandboxError):
            files.remove(protected, recursive=True, user="root" if os.geteuid() == 0 else None)
    assert files.exists("/workspace/file")


def test_links_lead_nowhere_else(files, shared, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    shared.commands.run(f"ln -s {secret} out; ln -s /proc/1/root/{secret} root; ln -s ../../../../../../{secret} up")
    for name in ("out", "root", "up"):
        with pytest.raises(OSError):
            files.read(f"/workspace/{name}")
    files.write("/workspace/real", "inside")
    shared.commands.run("ln -s real near")
    assert files.read_text("/workspace/near") == "inside"  # the control: links work


def test_a_directory_comes_down_and_goes_up(files, shared, tmp_path):
    shared.commands.run(
        "mkdir -p p/sub && echo hi > p/sub/f && chmod 750 p/sub/f && ln -s sub/f p/link && touch 'p/ü \"x'"
    )
    told = files.download_dir("/workspace/p", tmp_path / "down")
    assert (tmp_path / "down/sub/f").read_text() == "hi\n"
    assert (tmp_path / "down/sub/f").stat().st_mode & 0o777 == 0o750
    assert os.readlink(tmp_path / "down/link") == "sub/f"
    assert (tmp_path / 'down/ü "x').exists() and told.skipped == []
    files.upload_dir(tmp_path / "down", "/workspace/q")
    assert shared.commands.run("diff -r p q && readlink q/link && stat -c %U q/sub/f").stdout == "sub/f\nuser\n"
    archive = zipfile.ZipFile(io.BytesIO(files.download_dir("/workspace/p")))
    assert archive.read("sub/f") == b"hi\n"
    with pytest.raises(ValidationError):
        files.upload_dir(tmp_path / "none", "/workspace/r")
    with pytest.raises(FileNotFoundInSandboxError):
        files.download_dir("/workspace/none", tmp_path / "x")


@pytest.mark.parametrize("format", ["tar", "zip"])
def test_archives(files, shared, tmp_path, format):  # noqa: A002
    files.write_many({"/workspace/p/a": "A", "/workspace/p/d/b": "B" * 1000})
    files.download_archive("/workspace/p", tmp_path / "p.archive", format=format)
    files.upload_archive(tmp_path / "p.archive", "/workspace/back", format=format)
    assert shared.commands.run("diff -r p back && echo same").stdout == "same\n"
    with pytest.raises(ValidationError):
        files.download_archive("/workspace/p", tmp_path / "p.archive", format="rar")
    size = (tmp_path / "p.archive").stat().st_size
    assert size > 0  # it was not made anew
    shared.commands.run("head -c 2000000 /dev/urandom > p/large")
    with pytest.raises(LimitExceededError):
        files.download_archive("/workspace/p", tmp_path / "less", format=format, max_bytes=1_000_000)
    assert (tmp_path / "less").stat().st_size <= 1_000_000
    files.download_archive("/workspace/p", tmp_path / "less", format=format, max_bytes=3_000_000)


def test_what_comes_down_stays_in_its_place(files, shared, tmp_path):
    """Links that lead outside, and what a hostile machine could send."""
    from gloveport.host.machines.archives import unpack

    outside = tmp_path / "outside"
    shared.commands.run(f"mkdir p; ln -s {outside} p/abs; ln -s ../../outside p/up; mkfifo p/pipe; echo ok > p/ok")
    told = files.download_dir("/workspace/p", tmp_path / "down")
    assert sorted(os.listdir(tmp_path / "down")) == ["ok"]
    assert {name.rpartition("/")[2] for name, _ in told.skipped} >= {"abs", "up"}
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w") as archive:
        for name, kind, target in (
            ("../outside", tarfile.REGTYPE, ""),
            (str(outside), tarfile.REGTYPE, ""),
            ("dev", tarfile.CHRTYPE, ""),
            ("link", tarfile.SYMTYPE, ".."),
            ("link/outside", tarfile.REGTYPE, ""),
            ("hard", tarfile.LNKTYPE, "../outside"),
            ("good", tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    unpack([evil.getvalue()], tmp_path / "evil", max_bytes=1000)
    assert not outside.exists()
    assert (tmp_path / "evil" / "good").exists()
    with pytest.raises(SandboxError):
        unpack([b"no tar" * 1000], tmp_path / "noise", max_bytes=1000)
    with pytest.raises(LimitExceededError):
        big = io.BytesIO()
        with tarfile.open(fileobj=big, mode="w") as archive:
            member = tarfile.TarInfo("big")
            member.size = 2000
            archive.addfile(member, io.BytesIO(b"x" * 2000))
        unpack([big.getvalue()], tmp_path / "big", max_bytes=1000)


def tar_of(*members):
    """Names, what they lead to, and their kinds: by default links where there is something to lead to, else files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, target, *kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = (kind or [tarfile.SYMTYPE if target else tarfile.REGTYPE])[0], target
            member.size = 4 if member.type == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"evil"))
    return made.getvalue()


@pytest.mark.parametrize("filters", [True, False])
def test_names_too_long_to_be_followed_lead_nowhere(tmp_path, monkeypatch, filters):
    """CVE-2025-4517: what is too long for `realpath` is not too long for the kernel, which has short links to the same place."""
    from gloveport.host.machines.archives import unpack

    if not filters:  # as in Python before 3.11.4
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "outside").mkdir()
    place = tmp_path / "down"
    letters = "abcdefghijklmnop"
    long = "d" * ((4085 - len(str(place))) // len(letters) - 1)
    members, path = [], ""
    for letter in letters:
        members += [(f"{path}{long}", "", tarfile.DIRTYPE), (f"{path}{letter}", long)]
        path += f"{long}/"
    far = f"{'/'.join(letters)}/{'l' * 254}"
    members += [
        (far, "../" * len(letters)),
        ("escape", f"{far}/../outside"),
        ("escape/pwned", ""),
    ]
    told = unpack([tar_of(*members)], place, max_bytes=10_000)
    assert os.listdir(tmp_path / "outside") == []
    assert {far, "escape"} <= {name for name, _ in told.skipped}
    assert os.readlink(place / "a") == long  # the control: it was unpacked


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("left_out", [tarfile.SYMTYPE, tarfile.FIFOTYPE])
def test_what_was_left_out_does_not_come_back_by_a_link(tmp_path, kind, left_out):
    """`tarfile` makes the member that a link names when it cannot make the link."""
    from gloveport.host.machines.archives import unpack

    members = [("bad", str(tmp_path), left_out), ("h", "./" * 3000 + "bad", kind)]
    with contextlib.suppress(OSError):  # the name is too long
        unpack([tar_of(*members)], tmp_path / "down", max_bytes=1000)
    assert os.listdir(tmp_path / "down") == []


def test_links_that_stay_inside(tmp_path):
    from gloveport.host.machines.archives import unpack

    good = [
        ("a/b/file", ""),
        ("a/b/near", "file"),
        ("a/b/./up", "../.././a/b/file"),
        ("a/top", ".."),
        ("later", "a/none"),
        ("hard", "a/b/file", tarfile.LNKTYPE),
    ]
    bad = [
        ("a/over", "../.."),
        ("a/round", "b/../../.."),
        ("a/top/file", ""),  # through a link
        ("a/b/near", ""),
        ("flat", "a/top", tarfile.LNKTYPE),  # leads further up from here
        ("nothing", "none", tarfile.LNKTYPE),
        ("hard", "hard", tarfile.LNKTYPE),
        ("x/../y", ""),
        (".", "a", tarfile.LNKTYPE),
    ]
    place = tmp_path / "down"
    for _ in range(2):  # also over what is there
        told = unpack([tar_of(*good, *bad)], place, max_bytes=1000)
        assert [name for name, _ in told.skipped] == [name for name, *_ in bad]
        assert sorted(os.listdir(place)) == ["a", "hard", "later"]
        assert sorted(os.listdir(place / "a")) == ["b", "top"]
        assert (place / "a/b/near").read_text() == (place / "a/top/a/b/up").read_text() == "evil"
        assert os.readlink(place / "later") == "a/none"
        assert (place / "hard").stat().st_ino == (place / "a/b/file").stat().st_ino


def test_a_zip_with_names_that_lead_outside_is_refused(files):
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("../up", "x")
    evil.seek(0)
    with pytest.raises(ValidationError):
        files.upload_archive(evil, "/workspace/z", format="zip")
    with pytest.raises(ValidationError):
        files.upload_archive(io.BytesIO(b"no zip"), "/workspace/z", format="zip")


async def test_async(shared, tmp_path):
    sandbox = await AsyncSandbox.connect(shared.id)
    files = sandbox.files

    async def pieces():
        for n in range(20):
            await anyio.sleep(0)
            yield bytes([n]) * 50_000

    assert await files.write("/workspace/as/stream", pieces()) == 1_000_000
    total = 0
    async for piece in files.read_stream("/workspace/as/stream"):
        total += len(piece)
    assert total == 1_000_000
    assert await files.write("/workspace/as/plain", iter([b"a", b"b"])) == 2
    assert await files.append("/workspace/as/plain", "c") == 1
    assert await files.read_text("/workspace/as/plain") == "abc"
    await files.write_many({"/workspace/as/m": "1"})
    assert (await files.stat("/workspace/as/m")).size == 1 and await files.exists("/workspace/as/m")
    assert {e.name for e in await files.list("/workspace/as")} == {"stream", "plain", "m"}
    await files.make_dir("/workspace/as/d")
    assert await files.realpath("/workspace/as/./d") == "/workspace/as/d"
    with pytest.raises(FileNotFoundInSandboxError):
        await files.read("/workspace/as/none")
    await files.remove("/workspace/as", recursive=True)
    assert not await files.exists("/workspace/as")
