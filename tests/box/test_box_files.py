"""Files of a box, as the user of its commands."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.client import (
    ANSWER,
    CHMOD,
    COPY,
    DONE,
    EVENT,
    GLOB,
    HELLO,
    LISTDIR,
    MKDIR,
    MOVE,
    OK,
    READ,
    REALPATH,
    REMOVE,
    STAT,
    SYMLINK,
    TAR_IN,
    TAR_OUT,
    WATCH,
    WRITE,
    BoxError,
    Connection,
)
from tests.box.places import Place


@pytest.fixture
def folder(connection: Connection) -> Iterator[str]:
    path = f"/workspace/{uuid.uuid4().hex}"
    connection.ask(MKDIR, path=path)
    yield path
    connection.sh(f"chmod -R u+rwx {path}; rm -rf {path}")


def fails(connection: Connection, kind: int, expected: int, **fields: object) -> None:
    with pytest.raises(BoxError) as caught:
        connection.ask(kind, **fields)
    assert caught.value.errno == expected, errno.errorcode[caught.value.errno]


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_001])
def test_what_was_written_is_read(connection: Connection, folder: str, size: int) -> None:
    data = os.urandom(size)
    for atomic in (0, 1):
        assert connection.write(f"{folder}/f", data, atomic=atomic)["size"] == size
        assert connection.read(f"{folder}/f") == data
    assert connection.read(f"{folder}/f", offset=5, length=7) == data[5:12]


def test_ways_to_write(connection: Connection, folder: str) -> None:
    path = f"{folder}/a/b/c"
    with pytest.raises(BoxError) as caught:
        connection.write(path, b"x" * 1000000)
    assert caught.value.errno == errno.ENOENT
    connection.write(path, b"0123456789", parents=1)  # the connection is as good as before
    connection.write(path, b"XX", offset=4)
    connection.write(path, b"!", append=1)
    assert connection.read(path) == b"0123XX6789!"
    connection.write(path, b"#!/bin/sh\necho ran", mode=0o755)
    assert connection.run(path)["stdout"] == b"ran\n"
    connection.write(path, b"#!/bin/sh\necho anew", atomic=1)
    assert connection.run(path)["stdout"] == b"anew\n"  # it kept its mode


def test_an_atomic_write_that_breaks_off_changes_nothing(shared: Path, connection: Connection, folder: str) -> None:
    connection.write(f"{folder}/f", b"old")
    with Connection(shared) as other:
        other.send(WRITE, path=f"{folder}/f", atomic=1)
        other.socket.sendall(b"\x05\0\0\0\x2fnew!")
    connection.sh("sleep 0.2")
    assert connection.read(f"{folder}/f") == b"old"
    assert [entry["name"] for entry in connection.entries(LISTDIR, path=folder)] == [b"f"]


def test_a_write_goes_through_a_link(connection: Connection, folder: str) -> None:
    connection.write(f"{folder}/target", b"old")
    connection.ask(SYMLINK, path=f"{folder}/link", to="target")
    connection.write(f"{folder}/link", b"new", atomic=1)
    assert connection.read(f"{folder}/target") == b"new"
    assert connection.ask(STAT, path=f"{folder}/link", follow_link=0)["type"] == b"l"


def test_errors_are_those_of_the_system(connection: Connection, folder: str) -> None:
    connection.write(f"{folder}/file", b"x")
    fails(connection, READ, errno.ENOENT, path=f"{folder}/no")
    fails(connection, READ, errno.EISDIR, path=folder)
    fails(connection, LISTDIR, errno.ENOTDIR, path=f"{folder}/file")
    fails(connection, MKDIR, errno.EEXIST, path=f"{folder}/file", parents=1)
    fails(connection, MKDIR, errno.ENOTDIR, path=f"{folder}/file/x", parents=1)
    fails(connection, REMOVE, errno.ENOTEMPTY, path=folder)
    fails(connection, STAT, errno.EINVAL, path="relative")
    for parents in (0, 1):
        with pytest.raises(BoxError) as caught:
            connection.write(f"{folder}/file/x", b"data", parents=parents)
        assert caught.value.errno == errno.ENOTDIR
    with pytest.raises(BoxError) as caught:
        connection.write(folder, b"data")
    assert caught.value.errno == errno.EISDIR
    assert connection.ask(MKDIR, path=folder, parents=1) == {}


def test_permissions_are_those_of_the_command(connection: Connection, folder: str, place: Place) -> None:
    connection.write(f"{folder}/secret", b"x", mode=0)
    fails(connection, READ, errno.EACCES, path=f"{folder}/secret")
    for atomic in (0, 1):
        with pytest.raises(BoxError) as caught:
            connection.write(f"{folder}/secret", b"y", atomic=atomic)
        assert caught.value.errno == errno.EACCES
    fails(connection, READ, errno.EACCES, path="/proc/1/environ")
    if not place.uid:
        assert connection.read(f"{folder}/secret", user="root") == b"x"
        with pytest.raises(BoxError):
            connection.write("/etc/passwd", b"")


def test_a_pipe_or_device_is_not_waited_for(connection: Connection, folder: str) -> None:
    connection.run("mkfifo", f"{folder}/pipe")
    fails(connection, READ, errno.EINVAL, path=f"{folder}/pipe")
    fails(connection, READ, errno.EINVAL, path="/dev/zero")
    with pytest.raises(BoxError):
        connection.write(f"{folder}/pipe", b"x")


def test_entries(connection: Connection, folder: str) -> None:
    connection.sh(f"cd {folder}; mkdir -p d/e/f; echo abc > d/g; ln -s d/e link; ln -s nowhere broken; ln -s loop loop")
    entries = {entry["path"].decode().removeprefix(folder): entry for entry in connection.entries(LISTDIR, path=folder)}
    assert set(entries) == {"/d", "/link", "/broken", "/loop"}
    assert entries["/link"]["target"] == b"d/e" and entries["/link"]["target_type"] == b"d"
    assert "target_type" not in entries["/broken"] and "target_type" not in entries["/loop"]
    deep = [entry["path"].decode().removeprefix(folder) for entry in connection.entries(LISTDIR, path=folder, depth=9)]
    assert sorted(deep) == ["/broken", "/d", "/d/e", "/d/e/f", "/d/g", "/link", "/loop"]
    stat = connection.ask(STAT, path=f"{folder}/d/g")
    assert (stat["type"], stat["size"], stat["mode"], stat["uid"], stat["name"]) == (b"f", 4, 0o644, 1000, b"g")
    assert connection.ask(STAT, path=f"{folder}/link")["type"] == b"d"
    fails(connection, STAT, errno.ENOENT, path=f"{folder}/broken")


def test_names_are_bytes(connection: Connection, folder: str) -> None:
    path = folder.encode() + b"/\xff \n\x01"
    connection.send(WRITE, path=path)
    assert connection.stream(b"odd")["size"] == 3
    (entry,) = connection.entries(LISTDIR, path=folder)
    assert entry["name"] == b"\xff \n\x01" and entry["path"] == path


def test_real_paths(connection: Connection, folder: str) -> None:
    connection.sh(f"cd {folder}; mkdir -p a/b; ln -s b a/rel; ln -s ../out a/up; ln -s l2 a/l1; ln -s l1 a/l2")
    for path, real in [("a/rel/missing", "a/b/missing"), ("a/up/x", "out/x"), ("a/rel/..", "a"), ("./a//b/.", "a/b")]:
        assert connection.ask(REALPATH, path=f"{folder}/{path}")["path"].decode() == f"{folder}/{real}"
    fails(connection, REALPATH, errno.ELOOP, path=f"{folder}/a/l1/q")
    assert connection.ask(REALPATH, path="/../..")["path"] == b"/"


def test_removing(connection: Connection, folder: str) -> None:
    connection.sh(f"cd {folder}; mkdir -p t/u/v keep; echo x > t/u/f; ln -s ../../keep t/u/link; echo y > keep/f")
    connection.ask(REMOVE, path=f"{folder}/t", recursive=1)
    fails(connection, STAT, errno.ENOENT, path=f"{folder}/t")
    assert connection.read(f"{folder}/keep/f") == b"y\n"  # links are not followed
    fails(connection, REMOVE, errno.ENOENT, path=f"{folder}/t", recursive=1)
    connection.ask(SYMLINK, path=f"{folder}/here", to="/workspace")
    for path in ("/", "/workspace", "/workspace/.", f"{folder}/here/.", f"{folder}/..", "/../workspace"):
        fails(connection, REMOVE, errno.EPERM, path=path, recursive=1, protect="/workspace")
    connection.ask(REMOVE, path=f"{folder}/here", protect="/workspace")  # the link itself may go


def test_moving_copying_and_modes(connection: Connection, folder: str) -> None:
    connection.sh(f"cd {folder}; mkdir -p d/e; echo 1 > d/e/f; ln -s e d/l; echo 2 > other; chmod 750 d/e")
    connection.ask(COPY, path=f"{folder}/d", to=f"{folder}/copy")
    assert connection.read(f"{folder}/copy/l/f") == b"1\n"
    assert connection.ask(STAT, path=f"{folder}/copy/e")["mode"] == 0o750
    fails(connection, COPY, errno.EINVAL, path=f"{folder}/d", to=f"{folder}/d/e/again")
    connection.ask(MOVE, path=f"{folder}/copy", to=f"{folder}/moved")
    fails(connection, STAT, errno.ENOENT, path=f"{folder}/copy")
    fails(connection, MOVE, errno.EEXIST, path=f"{folder}/moved/e/f", to=f"{folder}/other")
    connection.ask(MOVE, path=f"{folder}/moved/e/f", to=f"{folder}/other", replace=1)
    assert connection.read(f"{folder}/other") == b"1\n"
    connection.ask(MOVE, path=f"{folder}/d", to="/dev/shm/moved-here", replace=1)  # another file system
    assert connection.read("/dev/shm/moved-here/e/f") == b"1\n"
    connection.ask(REMOVE, path="/dev/shm/moved-here", recursive=1)
    connection.ask(CHMOD, path=f"{folder}/other", mode=0o600)
    assert connection.ask(STAT, path=f"{folder}/other")["mode"] == 0o600


def test_globs(connection: Connection, folder: str) -> None:
    connection.sh(f"cd {folder}; mkdir -p a/b/c .hidden; touch x.py a/y.py a/b/c/z.py a/b/w.txt .hidden/h.py .d.py")

    def found(pattern: str) -> set[str]:
        paths = [
            entry["path"].decode().removeprefix(f"{folder}/")
            for entry in connection.entries(GLOB, path=folder, pattern=pattern)
        ]
        assert len(paths) == len(set(paths)), paths
        return set(paths)

    assert found("*.py") == {"x.py"}
    assert found("a/*") == {"a/y.py", "a/b"}
    assert found("**/*.py") == {"x.py", "a/y.py", "a/b/c/z.py"}
    assert found("a/**/z.py") == {"a/b/c/z.py"}
    assert found("**") == {"x.py", "a", "a/y.py", "a/b", "a/b/c", "a/b/c/z.py", "a/b/w.txt"}
    assert found(".*") == {".hidden", ".d.py"}
    assert found("[wx]*") == {"x.py"}
    fails(connection, GLOB, errno.EINVAL, path=folder, pattern="/x")


def test_watching(shared: Path, connection: Connection, folder: str) -> None:
    connection.ask(MKDIR, path=f"{folder}/sub")
    with Connection(shared) as watcher:
        assert watcher.ask(WATCH, path=folder, recursive=1) == {}
        connection.sh(
            f"cd {folder}; echo x > sub/f; mkdir late; sleep 0.1; echo y > late/g; rm sub/f; mv late/g late/h"
        )
        seen = set()
        while (f"{folder}/late/h".encode(), b"moved-to") not in seen:
            kind, event = watcher.answer()
            assert kind == EVENT
            seen.add((event["path"], event["event"]))
    expected = {
        ("sub/f", "create"),
        ("sub/f", "written"),
        ("late", "create"),
        ("late/g", "written"),
        ("sub/f", "delete"),
    }
    assert {(f"{folder}/{path}".encode(), kind.encode()) for path, kind in expected} <= seen


def pack(connection: Connection, path: str) -> tarfile.TarFile:
    connection.send(TAR_OUT, path=path)
    data = io.BytesIO()
    while True:
        kind, body = connection.frame()
        if kind == DONE:
            data.seek(0)
            return tarfile.open(fileobj=data)
        assert kind == ANSWER, body
        data.write(body)


def test_trees_as_tar_both_ways(connection: Connection, folder: str) -> None:
    long = "/".join(["n" * 90] * 3)
    connection.sh(
        f"cd {folder}; mkdir -p src/{long} src/empty; head -c 700000 /dev/urandom > src/{long}/data; ln -s {long} src/link;"
        "ln -s $(printf 'x%.0s' $(seq 150)) src/far; mkfifo src/pipe; echo -n > src/none; chmod 755 src/none"
    )
    archive = pack(connection, f"{folder}/src")
    names = set(archive.getnames())
    assert {
        f"{long}/data",
        "link",
        "far",
        "empty",
        "none",
        "pipe",
    } <= names  # whoever unpacks it can say what it left out
    assert archive.getmember("link").linkname == long and archive.getmember("none").mode == 0o755
    data = archive.extractfile(f"{long}/data")
    assert data is not None
    content = data.read()
    assert content == connection.read(f"{folder}/src/{long}/data")

    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as made:
            for member in archive.getmembers():
                made.addfile(member, archive.extractfile(member) if member.isreg() else None)
            hard = tarfile.TarInfo("hard")
            hard.type, hard.linkname = tarfile.LNKTYPE, f"{long}/data"
            made.addfile(hard)
        target = f"{folder}/target{form}"
        connection.send(TAR_IN, path=target)
        connection.stream(buffer.getvalue(), chunk=100_001)
        assert (
            connection.sh(
                f"cd {folder} && rm src/pipe -f && rm {target}/hard && diff -r src {target}; stat -c %a {target}/none"
            )["stdout"]
            == b"755\n"
        )


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/..//out", "through/out"])
def test_an_archive_cannot_write_elsewhere(connection: Connection, folder: str, name: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        link = tarfile.TarInfo("through")
        link.type, link.linkname = tarfile.SYMTYPE, ".."
        made.addfile(link)
        entry = tarfile.TarInfo(name)
        entry.size = 4
        made.addfile(entry, io.BytesIO(b"evil"))
    connection.send(TAR_IN, path=f"{folder}/inner")
    with pytest.raises(BoxError):
        connection.stream(buffer.getvalue())
    fails(connection, STAT, errno.ENOENT, path=f"{folder}/out")
    assert connection.ask(HELLO)["pid"] == 1


def test_an_absolute_name_stays_below_and_broken_archives_are_refused(connection: Connection, folder: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        entry = tarfile.TarInfo("/etc/inside")
        entry.size = 2
        made.addfile(entry, io.BytesIO(b"ok"))
    data = buffer.getvalue()
    connection.send(TAR_IN, path=folder)
    connection.stream(data)
    assert connection.read(f"{folder}/etc/inside") == b"ok"
    for broken in (data[:300], b"x" * 512, data[:100] + b"\xff" + data[101:]):
        connection.send(TAR_IN, path=folder)
        with pytest.raises(BoxError) as caught:
            connection.stream(broken)
        assert caught.value.errno == errno.EPROTO


def test_a_hundred_thousand_files(connection: Connection, folder: str) -> None:
    connection.socket.settimeout(120)
    made = connection.sh(f"cd {folder}; mkdir m; cd m; seq 1 100000 | xargs touch; ls | wc -l", timeout_ms=120000)
    assert made["stdout"].strip() == b"100000", made
    assert len(connection.entries(LISTDIR, path=f"{folder}/m")) == 100000
    connection.ask(REMOVE, path=f"{folder}/m", recursive=1)
    fails(connection, STAT, errno.ENOENT, path=f"{folder}/m")


def test_a_large_file_in_flat_memory(connection: Connection, folder: str, shared: Path) -> None:
    connection.send(WRITE, path=f"{folder}/big")
    assert connection.stream(b"x" * (64 << 20))["size"] == 64 << 20
    connection.send(READ, path=f"{folder}/big")
    total = 0
    while (frame := connection.frame())[0] == ANSWER:
        total += len(frame[1])
    assert frame[0] == DONE and total == 64 << 20
    assert connection.ask(STAT, path=f"{folder}/big")["size"] == total
    with Connection(shared) as other:
        assert other.ask(HELLO)["version"] == 1


def test_ok_is_not_an_entry(connection: Connection) -> None:
    connection.send(STAT, path="/")
    assert connection.answer()[0] == OK
