"""The folder of layers: content-addressed, read-only file trees that any number of machines share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

from ...errors import CapabilityError
from .owners import Owners
from .trees import copy_tree, digest_tree, measure_tree, open_folder, remove_tree, stack_tree

__all__ = ("LIVE", "MERGED", "LayerStore", "Staging", "tree_bytes")

LIVE: Final = "live-"
"""Begins the ids of layers that were machines' own files, and are known by nothing but their use."""
MERGED: Final = "flat-"
"""Begins the ids of layers that were made of such layers."""
_TREE: Final = "tree"
_ABOUT: Final = "about.json"
_STAGING: Final = ".staging-"
_ID_LENGTH: Final = 32


def _give(tree: Path, owner: int) -> None:
    """To root of machines. Raises `CapabilityError` for a root who has no such id to give: one of a user namespace with few ids."""
    try:
        os.chown(tree, owner, owner)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EPERM):
            raise
        raise CapabilityError(
            f"this root may not give files to the ids of machines, {owner} and above",
            missing=("isolation",),
            hint="use gloveport as an ordinary user, or give the user namespace that this runs in more ids (/etc/subuid)",
        ) from error


class Staging:
    """A tree in the making: `tree` is its folder. Whoever makes it holds a lock, so that it is not swept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / _TREE


class LayerStore:
    """`folder/<id>/tree` for each layer, beside `about.json`. Any number of processes may use it at the same time.

    An id is the digest of the content and of whose the files are (`digest_tree`), or, for what is too large to be read, a random one.
    """

    def __init__(self, folder: Path, owners: Owners) -> None:
        self.folder = folder
        self.owners = owners

    def path(self, layer: str) -> Path:
        """The tree of a layer. Raises `FileNotFoundError`, and `ValueError` for what is no id."""
        if not layer.replace("-", "").isalnum() or not layer.isascii():
            raise ValueError(f"{layer!r} is no id of a layer")
        tree = self.folder / layer / _TREE
        if not tree.is_dir():
            raise FileNotFoundError(f"there is no layer {layer}")
        return tree

    def __contains__(self, layer: str) -> bool:
        try:
            self.path(layer)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def ids(self) -> list[str]:
        """Those that are complete, oldest first."""
        if not self.folder.is_dir():
            return []
        names = [name for name in os.listdir(self.folder) if name in self]
        return sorted(names, key=lambda name: (self.about(name).get("made", 0), name))

    def about(self, layer: str) -> dict[str, Any]:
        """What was written down about a layer: `made` (Unix time), `bytes`, `entries`, and what its maker added."""
        try:
            return json.loads((self.folder / layer / _ABOUT).read_text("utf-8"))
        except (OSError, ValueError):
            return {}

    @contextlib.contextmanager
    def staging(self) -> Generator[Staging]:
        """A new, empty tree. It is gone at the end unless `commit` made a layer of it."""
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder = self.folder / f"{_STAGING}{secrets.token_hex(8)}"
        folder.mkdir(mode=0o711)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = Staging(folder)
            made.tree.mkdir(mode=0o755)
            if self.owners.base is not None:
                _give(made.tree, self.owners.base)
            yield made
        finally:
            try:
                remove_tree(folder)
            finally:
                os.close(lock)

    def commit(self, staging: Staging, **about: Any) -> str:
        """Makes a layer of what was staged, and gives its id; the same content twice is one layer."""
        tree = open_folder(staging.tree)
        try:
            layer = f"{digest_tree(tree)[:_ID_LENGTH]}-{self.owners.key}"
            self._describe(staging.folder, tree, about)
        finally:
            os.close(tree)
        return self._place(staging.folder, layer)

    def made_once(self, name: str, make: Callable[[Staging], None], **about: Any) -> str:
        """The layer that is called `name`, made by `make` if there is none. For trees that follow from what they are made of: `name`
        must hold a digest of that. Several processes at once make it once each, and one is kept."""
        layer = f"{name}-{self.owners.key}"
        if layer in self:
            return layer
        with self.staging() as staging:
            make(staging)
            tree = open_folder(staging.tree)
            try:
                self._describe(staging.folder, tree, about)
            finally:
                os.close(tree)
            return self._place(staging.folder, layer)

    def put_copy(self, source: int, **about: Any) -> str:
        """Copies a tree, given by the descriptor of its folder, into a layer."""
        with self.staging() as staging:
            target = open_folder(staging.tree)
            try:
                copy_tree(source, target)
            finally:
                os.close(target)
            return self.commit(staging, **about)

    def keep_copy(self, source: int, **about: Any) -> str:
        """As `put_copy`, without reading what was copied: its id says nothing of its content."""
        with self.staging() as staging:
            target = open_folder(staging.tree)
            try:
                copy_tree(source, target)
                self._describe(staging.folder, target, about)
            finally:
                os.close(target)
            return self._place(staging.folder, f"{LIVE}{secrets.token_hex(12)}-{self.owners.key}")

    def adopt(self, tree: Path, **about: Any) -> str:
        """Takes a tree of the same file system as a layer, without reading it: its id says nothing of its content."""
        layer = self.reserve()
        self.fill(layer, tree, **about)
        return layer

    def reserve(self) -> str:
        """An id for `fill`. Nothing is there yet."""
        return f"{LIVE}{secrets.token_hex(12)}-{self.owners.key}"

    def fill(self, layer: str, tree: Path, **about: Any) -> None:
        """Makes `tree`, of the same file system, the layer of this id: one rename, before which there is no such layer and after which it
        is whole. Raises `FileNotFoundError` when there is no `tree`."""
        folder = self.folder / layer
        for attempt in (1, 2):
            folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            (folder / _ABOUT).write_text(json.dumps({"made": time.time(), **about}), "utf-8")
            try:
                os.rename(tree, folder / _TREE)
                return
            except FileNotFoundError:
                if attempt == 2 or folder.is_dir():
                    raise  # else it was swept: whoever had begun it was long dead

    def merged(self, layers: Sequence[str], **about: Any) -> str:
        """One layer that shows what these show, top first, over whatever lies below. A copy, made once."""
        paths = [self.path(layer) for layer in layers]
        digest = hashlib.sha256("\0".join(layers).encode()).hexdigest()[:_ID_LENGTH]

        def make(staging: Staging) -> None:
            target = open_folder(staging.tree)
            try:
                for path in reversed(paths):
                    source = open_folder(path)
                    try:
                        stack_tree(source, target)
                    finally:
                        os.close(source)
            finally:
                os.close(target)

        return self.made_once(f"{MERGED}{digest}", make, **about)

    def remove(self, layer: str) -> None:
        """Idempotent. Whoever calls it knows that no machine and no image uses it."""
        gone = self.folder / f"{_STAGING}{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.folder / layer, gone)  # at once, so that nobody finds half of one
            remove_tree(gone)

    def sweep(self) -> int:
        """Removes what makers that died have left, and gives their number."""
        count = 0
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.folder):
                if name.startswith(_STAGING) and self._abandoned(self.folder / name):
                    remove_tree(self.folder / name)
                    count += 1
                elif name.startswith(LIVE) and name not in self and self._old(self.folder / name):
                    with contextlib.suppress(OSError):  # it was filled in this moment, and stays
                        (self.folder / name / _ABOUT).unlink(missing_ok=True)
                        os.rmdir(self.folder / name)
                        count += 1
        return count

    @staticmethod
    def _old(folder: Path) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return time.time() - folder.stat().st_mtime > 60
        return False

    @staticmethod
    def _abandoned(folder: Path) -> bool:
        try:
            lock = open_folder(folder)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A maker locks its folder right after it has made it: one that is younger may not have come to it.
            return time.time() - os.fstat(lock).st_mtime > 60
        except BlockingIOError:
            return False
        finally:
            os.close(lock)

    def _describe(self, folder: Path, tree: int, about: dict[str, Any]) -> None:
        size, entries = measure_tree(tree)
        text = json.dumps({"made": time.time(), "bytes": size, "entries": entries, **about})
        (folder / _ABOUT).write_text(text, "utf-8")

    def _place(self, folder: Path, layer: str) -> str:
        if layer not in self:
            with contextlib.suppress(OSError):  # another process was faster: the same content
                os.rename(folder, self.folder / layer)
        self.path(layer)
        return layer


def tree_bytes(tree: Path) -> int:
    """Bytes on disk of a layer's tree, counted now unless they were when it was made. 0 when it is not there any more."""
    try:
        return int(json.loads((tree.parent / _ABOUT).read_text("utf-8"))["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        folder = open_folder(tree)
    except OSError:
        return 0
    try:
        return measure_tree(folder)[0]
    finally:
        os.close(folder)
