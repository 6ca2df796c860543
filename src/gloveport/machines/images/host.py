"""The image `host`: programs of the host's `/usr`, read-only, below a root that is made up.

Nothing of the host's `/etc` is seen but a list of files that programs in `/usr` do not work without, of those only what everybody may
read, and never what may hold a secret (`pip.conf`, `npmrc`, `gitconfig`, `ssl/private`). No `/home`, `/var`, `/opt`, `/root` of the
host. `/usr/local` is the machine's own, so that `pip install` works.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..spec import UID_BASE, USER_ID, Image
from .layers import LayerStore
from .owners import Owners

__all__ = ("host_image",)

_VERSION: Final = "1"
_TOP: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FROM_ETC: Final = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "inputrc",
    "java*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3*",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "xdg/user-dirs.defaults",
)
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_FILES: Final = 20_000
_USERS: Final = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP: Final = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n"
_MADE: Final = {
    "etc/passwd": _USERS,
    "etc/group": _GROUP,
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
    "etc/hostname": "sandbox\n",
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "etc/host.conf": "multi on\n",
}
_FOLDERS: Final = {
    "workspace": (0o755, USER_ID),
    "home": (0o755, 0),
    "home/user": (0o755, USER_ID),
    "root": (0o700, 0),
    "tmp": (0o1777, 0),
    "var": (0o755, 0),
    "var/tmp": (0o1777, 0),
    "var/lib": (0o755, 0),
    "var/log": (0o755, 0),
    "var/cache": (0o755, 0),
    "usr": (0o755, 0),
    "usr/local": (0o755, USER_ID),
    **{f"usr/local/{name}": (0o755, USER_ID) for name in ("bin", "lib", "share", "include", "sbin", "etc")},
    **dict.fromkeys(("etc", "proc", "dev", "run", "mnt", "opt", "srv"), (493, 0)),
}


def host_image(root: Path) -> Image:
    """The image, made in the state directory if it is not there yet."""
    layer = _layer(root, os.geteuid() == 0)
    if not layer.is_dir():
        _layer.cache_clear()
        layer = _layer(root, os.geteuid() == 0)
    return Image(name="host", layers=(layer,), binds=_binds(), keep=("/usr/local",))


@functools.cache
def _binds() -> tuple[tuple[str, str], ...]:
    own = [name for name in _TOP if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
    return (("/usr", "/usr"), *((f"/{name}", f"/{name}") for name in own))


@functools.lru_cache(maxsize=8)
def _layer(root: Path, privileged: bool) -> Path:
    found = list(_found())
    digest = hashlib.sha256(f"{_VERSION} {privileged} {os.geteuid()} {UID_BASE}\0".encode())
    for name, path, info in found:
        content = os.readlink(path) if stat.S_ISLNK(info.st_mode) else f"{info.st_size} {info.st_mtime_ns}"
        digest.update(f"{name}\0{info.st_mode}\0{content}\0".encode("utf-8", "surrogateescape"))
    for name in _TOP:
        digest.update(f"{name} {os.path.islink(f'/{name}')}\0".encode())
    layers = LayerStore(root / "layers", Owners.here(UID_BASE))
    layer = layers.made_once(
        f"host-{digest.hexdigest()[:24]}", lambda staging: _fill(staging.tree, found, privileged), source="the host"
    )
    return layers.path(layer)


def _found() -> Iterator[tuple[str, Path, os.stat_result]]:
    """What is taken from `/etc`: name in the layer, path, status. Within bounds, and readable by everybody."""
    files = size = 0
    for pattern in _FROM_ETC:
        for path in sorted(Path("/etc").glob(pattern)):
            below = sorted(path.rglob("*")) if path.is_dir() and not path.is_symlink() else []
            for item in (path, *below):
                try:
                    info = item.lstat()
                except OSError:
                    continue
                if not stat.S_ISLNK(info.st_mode) and not info.st_mode & 0o004:
                    continue
                files, size = files + 1, size + info.st_size
                if files > _MOST_FILES or size > _MOST_BYTES:
                    return
                yield str(item.relative_to("/")), item, info


def _fill(work: Path, found: list[tuple[str, Path, os.stat_result]], privileged: bool) -> None:
    for name, (mode, owner) in _FOLDERS.items():
        _folder(work / name, mode, owner, privileged)
    for name in _TOP:
        if os.path.islink(f"/{name}"):
            _link(work / name, os.readlink(f"/{name}"), privileged)
    for name, path, info in found:
        _copy(work / name, path, info, privileged)
    for name, text in _MADE.items():
        (work / name).unlink(missing_ok=True)
        (work / name).write_text(text, "utf-8")
        _own(work / name, 0, privileged, 0o644)


def _copy(place: Path, path: Path, info: os.stat_result, privileged: bool) -> None:
    for parent in reversed(place.relative_to(place.anchor).parents):
        folder = Path(place.anchor, parent)
        if not folder.exists():
            _folder(folder, 0o755, 0, privileged)
    try:
        if stat.S_ISLNK(info.st_mode):
            _link(place, os.readlink(path), privileged)
        elif stat.S_ISDIR(info.st_mode):
            if not place.exists():
                _folder(place, 0o755, 0, privileged)
        elif stat.S_ISREG(info.st_mode):
            shutil.copyfile(path, place, follow_symlinks=False)
            _own(place, 0, privileged, 0o644 | info.st_mode & 0o111)
    except (FileNotFoundError, PermissionError):
        pass  # it went away, or is not for us: then it is not for the machine


def _folder(path: Path, mode: int, owner: int, privileged: bool) -> None:
    path.mkdir()
    _own(path, owner, privileged, mode)


def _link(path: Path, target: str, privileged: bool) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    _own(path, 0, privileged)


def _own(path: Path, owner: int, privileged: bool, mode: int | None = None) -> None:
    if privileged:
        os.chown(path, UID_BASE + owner, UID_BASE + owner, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)
