"""Trees that a guest has written: copied, digested and removed without ever leaving them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gloveport.machines.images.trees import (
    OPAQUE,
    copy_tree,
    digest_tree,
    make_whiteout,
    measure_tree,
    open_folder,
    remove_tree,
)


def _copy(source: Path, target: Path) -> int:
    target.mkdir()
    given, made = open_folder(source), open_folder(target)
    try:
        return copy_tree(given, made)
    finally:
        os.close(given)
        os.close(made)


def _digest(tree: Path) -> str:
    folder = open_folder(tree)
    try:
        return digest_tree(folder)
    finally:
        os.close(folder)


def _busy_tree(tree: Path) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "file").write_bytes(b"x" * 5000)
    os.link(tree / "a" / "file", tree / "a" / "b" / "same")
    os.symlink("/etc/passwd", tree / "outside")
    os.mkfifo(tree / "pipe", 0o640)
    with (tree / "sparse").open("wb") as file:
        file.seek(50 << 20)
        file.write(b"end")
    (tree / "a").chmod(0o2750)
    os.utime(tree / "a" / "file", ns=(10**18, 10**18 + 7))
    folder = open_folder(tree)
    make_whiteout("gone", folder)
    os.close(folder)
    os.setxattr(tree / "a" / "b", OPAQUE, b"y")


def test_a_copy_is_the_same_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    _busy_tree(tree)
    _copy(tree, tmp_path / "copy")
    copied = tmp_path / "copy"
    assert _digest(copied) == _digest(tree)
    assert (copied / "a" / "file").stat().st_ino == (copied / "a" / "b" / "same").stat().st_ino
    assert (copied / "a" / "file").stat().st_mtime_ns == 10**18 + 7
    assert os.readlink(copied / "outside") == "/etc/passwd"
    assert (copied / "sparse").stat().st_blocks < 1000
    assert stat.S_IMODE((copied / "a").stat().st_mode) == 0o2750
    gone = (copied / "gone").lstat()
    assert stat.S_ISCHR(gone.st_mode) and gone.st_rdev == 0
    assert os.getxattr(copied / "a" / "b", OPAQUE) == b"y"


@pytest.mark.parametrize("change", ["content", "mode", "name", "link", "opaque", "whiteout"])
def test_a_digest_sees_every_change_but_times(tmp_path: Path, change: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    _busy_tree(tree)
    before = _digest(tree)
    os.utime(tree / "a" / "file")
    assert _digest(tree) == before
    match change:
        case "content":
            (tree / "a" / "file").write_bytes(b"y" * 5000)
        case "mode":
            (tree / "a" / "file").chmod(0o600)
        case "name":
            (tree / "a").rename(tree / "c")
        case "link":
            (tree / "outside").unlink()
            os.symlink("/etc/shadow", tree / "outside")
        case "opaque":
            os.removexattr(tree / "a" / "b", OPAQUE)
        case _:
            (tree / "gone").unlink()
    assert _digest(tree) != before


def test_links_lead_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("s3cret")
    tree = tmp_path / "tree"
    tree.mkdir()
    os.symlink(secret, tree / "folder")
    os.symlink(secret / "key", tree / "file")
    _copy(tree, tmp_path / "copy")
    assert (tmp_path / "copy" / "folder").is_symlink()
    assert (tmp_path / "copy" / "file").is_symlink()
    remove_tree(tree)
    assert (secret / "key").read_text() == "s3cret"
    with pytest.raises(NotADirectoryError):
        open_folder(tmp_path / "copy" / "folder")


def test_removing_takes_what_nobody_may_read_and_what_is_deeper_than_a_path(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    here = os.open(tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 50, dir_fd=here)
        inner = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    closed = tree / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").touch()
    (closed / "inner").chmod(0)
    closed.chmod(0)
    remove_tree(tree)
    assert not tree.exists()
    remove_tree(tree)


def test_a_tree_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    for depth, fits in ((300, True), (600, False)):
        tree = tmp_path / f"deep{depth}"
        tree.joinpath(*["d"] * depth).mkdir(parents=True)
        if fits:
            _copy(tree, tmp_path / f"copy{depth}")
        else:
            with pytest.raises(OSError, match="nested more than"):
                _copy(tree, tmp_path / f"copy{depth}")
    assert len(os.listdir("/proc/self/fd")) < 200


def test_the_measure_of_a_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "one").write_bytes(b"x" * 100_000)
    os.link(tree / "one", tree / "two")
    folder = open_folder(tree)
    size, entries = measure_tree(folder)
    os.close(folder)
    assert entries == 2
    assert 100_000 <= size < 200_000
