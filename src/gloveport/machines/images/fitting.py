"""What a machine needs that images of others do not have: the folders it works in, its user, and where names are resolved."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from .layers import LayerStore, Staging
from .manifests import Image
from .owners import Owners
from .trees import open_folder

__all__ = ("fitted", "known_user")

_VERSION: Final = "1"
_MOST: Final = 1 << 20
_FOLDERS: Final = (
    ("workspace", 0o755, 1000),
    ("home", 0o755, 0),
    ("home/user", 0o755, 1000),
    ("root", 0o700, 0),
    ("tmp", 0o1777, 0),
    ("etc", 0o755, 0),
    ("proc", 0o755, 0),
    ("dev", 0o755, 0),
    ("run", 0o755, 0),
)
_ACCOUNTS: Final = {
    "etc/passwd": ("root:x:0:0:root:/root:/bin/sh", "user:x:1000:1000:user:/home/user:/bin/sh"),
    "etc/group": ("root:x:0:", "user:x:1000:"),
}
_FILES: Final = {
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
    "etc/hostname": "sandbox\n",
}


def fitted(layers: LayerStore, image: Image) -> Image:
    """The image with a layer on top that has what is missing. What the image has stays as it is, but for where names are resolved.

    An account of the image's with the name `user` or the number 1000 stays the one of that name or number. The image's own user stays
    if it is one that can be in this machine, else it is uid 1000's.
    """
    trees = [layers.path(layer) for layer in image.layers]
    folders = [entry for entry in _FOLDERS if not _is_folder(trees, entry[0])]
    files = dict(_FILES)
    for path, lines in _ACCOUNTS.items():
        given = _text(trees, path)
        files[path] = _with_accounts(given, lines)
    if not _text(trees, "etc/nsswitch.conf"):
        files["etc/nsswitch.conf"] = "passwd: files\ngroup: files\nhosts: files dns\n"
    digest = hashlib.sha256(repr((_VERSION, folders, sorted(files.items()))).encode()).hexdigest()[:24]

    def make(staging: Staging) -> None:
        _make(staging.tree, folders, files, layers.owners.base)

    top = layers.made_once(f"fit-{digest}", make, source="what images lack")
    user = known_user(image.user, _text(trees, "etc/passwd"), _text(trees, "etc/group"), layers.owners)
    return msgspec.structs.replace(image, layers=[top, *image.layers], user=user)


def known_user(given: str, accounts: str, groups: str, owners: Owners) -> str:
    """Whom an image names by `name`, `uid`, and either with `:group` (OCI image specification, config, `User`), as a machine takes it:
    `root`, `name`, `uid:gid`, or nothing, which is uid 1000, for one that it does not have. A number needs no account; its group is 0
    then. A machine of an ordinary user of the host has only root or uid 1000."""
    name, _, group = given.partition(":")
    uid = gid = None
    for parts in (line.split(":") for line in accounts.splitlines() if line.count(":") >= 3):
        if name and name in (parts[0], parts[2]):
            uid, gid = _id(parts[2]), _id(parts[3])
            break
    else:
        uid, gid = _id(name), 0
    if group:
        known = (line.split(":") for line in groups.splitlines() if line.count(":") >= 2)
        gid = next((_id(parts[2]) for parts in known if group in (parts[0], parts[2])), _id(group))
    if uid is None or gid is None:
        return ""
    if uid == 0:
        return "root"
    return "" if owners.base is None else f"{uid}:{gid}"


def _id(text: str) -> int | None:
    """Of a user or group. `None` for what is no number that a machine has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 65534 else None


def _with_accounts(given: str, lines: Sequence[str]) -> str:
    known = [line.split(":") for line in given.splitlines() if line.count(":") >= 2]
    names, numbers = {parts[0] for parts in known}, {parts[2] for parts in known}
    missing = [line for line in lines if line.split(":")[0] not in names and line.split(":")[2] not in numbers]
    start = given if not given or given.endswith("\n") else given + "\n"
    return start + "".join(f"{line}\n" for line in missing)


def _make(tree: Path, folders: Sequence[tuple[str, int, int]], files: dict[str, str], base: int | None) -> None:
    for name in [*(name for name, _, _ in folders), *files]:
        parent = (tree / name).parent
        if not parent.is_dir():
            parent.mkdir()  # its mode and owner are now those that all see, whatever the image's folder has
            _settle(parent, 0o755, 0, base)
    for name, mode, owner in folders:
        (tree / name).mkdir(exist_ok=True)
        _settle(tree / name, mode, owner, base)
    for name, text in files.items():
        (tree / name).write_text(text, "utf-8")
        _settle(tree / name, 0o644, 0, base)


def _settle(path: Path, mode: int, owner: int, base: int | None) -> None:
    path.chmod(mode)
    if base is not None:
        os.chown(path, base + owner, base + owner)


def _is_folder(trees: Sequence[Path], name: str) -> bool:
    """Whether the topmost layer that has this name has a folder there. Links count as what they are."""
    for tree in trees:
        with contextlib.suppress(OSError):
            return stat.S_ISDIR(os.lstat(tree / name).st_mode)
    return False


def _text(trees: Sequence[Path], name: str) -> str:
    """A small file of the topmost layer that has it, without following links."""
    folder_name, _, last = name.partition("/")
    for tree in trees:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            top = open_folder(tree)
            stack.callback(os.close, top)
            folder = open_folder(folder_name, top)
            stack.callback(os.close, folder)
            file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, file)
            if stat.S_ISREG(os.fstat(file).st_mode):
                return os.read(file, _MOST).decode("utf-8", "replace")
    return ""
