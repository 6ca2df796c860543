"""Directories of a machine to and from the host, as tar streams. What comes out of a machine is hostile: no name in it may lead
outside of the place that it is put, on the host's side as well."""

from __future__ import annotations

import functools
import io
import os
import queue
import stat
import tarfile
import threading
import zipfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from ...errors import LimitExceededError, SandboxError, ValidationError

__all__ = ("Unpacked", "pack", "pack_zip", "tar_of_zip", "unpack", "zip_of_tar")

_CHUNK: Final = 256 * 1024
MAX_FILES: Final = 1_000_000
_QUEUE: Final = 8


class Unpacked:
    """What was left out while unpacking, and why."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self.skipped: list[tuple[str, str]] = []


class _Stream(io.RawIOBase):
    """Pieces as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _members(pieces: Iterable[bytes], max_bytes: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo, Unpacked]]:
    told = Unpacked()
    try:
        with tarfile.open(fileobj=io.BufferedReader(_Stream(pieces), _CHUNK), mode="r|") as archive:
            for member in archive:
                told.files += 1
                told.bytes += max(member.size, 0)
                if told.files > MAX_FILES or told.bytes > max_bytes:
                    raise LimitExceededError(
                        f"the directory has more than {MAX_FILES} files or {max_bytes} bytes",
                        limit="output",
                        hint="raise `max_bytes`",
                    )
                yield archive, member, told
    except tarfile.TarError as error:
        raise SandboxError(f"the machine sent a broken archive: {error}") from error


class _Refused(Exception):
    """A member that would leave its place."""


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _kind(target: Path, parts: list[str]) -> int:
    """What is there; 0: nothing. Raises `_Refused` for a link, also on the way."""
    kind = stat.S_IFDIR
    for part in parts:
        target = target / part
        try:
            kind = stat.S_IFMT(target.lstat().st_mode)
        except FileNotFoundError:
            return 0
        if kind == stat.S_IFLNK:
            raise _Refused("through a link")
    return kind


def _check(member: tarfile.TarInfo, target: Path) -> None:
    """Raises `_Refused`. Nothing goes through a link, and no link leads above `target`, whatever comes later.

    Looks at one name after the other: where a path leads cannot be asked, as `realpath` takes a name that is too long for a folder
    (CVE-2025-4517, in the filters of Python 3.11.7).
    """
    parts = _parts(member.name)
    if ".." in parts or not (parts or member.isdir()):
        raise _Refused("OutsideDestinationError")
    if not (member.issym() or member.islnk()):
        _kind(target, parts)
        return
    _kind(target, parts[:-1])  # a link takes the place of another
    if os.path.isabs(member.linkname):
        raise _Refused("AbsoluteLinkError")
    leads = _parts(member.linkname)
    ups = leads.count("..")
    if ups > (len(parts) - 1 if member.issym() else 0) or ".." in leads[ups:]:
        raise _Refused("LinkOutsideDestinationError")
    if member.islnk() and (leads == parts or _kind(target, leads) != stat.S_IFREG):
        raise _Refused("link to nothing")


def _link(member: tarfile.TarInfo, target: Path) -> None:
    """Not by `tarfile`: when it cannot make a link, it makes what has that name in the archive, which no filter has seen."""
    place = target.joinpath(*_parts(member.name))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if member.issym():
        place.symlink_to(member.linkname)
    else:
        os.link(target.joinpath(*_parts(member.linkname)), place)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Raises `_Refused`. Python before 3.11.4, as in Debian 12, has no filters: there we do what `data` does."""
    _check(member, target)
    if member.issym() or member.islnk():
        _link(member, target)
        return
    if hasattr(tarfile, "data_filter"):
        try:
            archive.extract(member, target, set_attrs=True, filter="data")
        except tarfile.FilterError as error:
            raise _Refused(type(error).__name__) from error
        return
    if os.path.isabs(member.name):
        raise _Refused("AbsolutePathError")
    mode = (member.mode & 0o755) | 0o600 if member.isfile() else 0o755
    member.mode = mode if mode & 0o100 else mode & ~0o111
    member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
    archive.extract(member, target, set_attrs=True)


def unpack(pieces: Iterable[bytes], target: Path, *, max_bytes: int) -> Unpacked:
    """Put a tar stream into a directory, which is made.

    By `tarfile`'s filter `data` (PEP 706) and rules of our own: nothing lands outside, no device, no set-id bit, no owner. Links that
    lead outside, what would go through a link, and special files are left out and named in what is given.
    """
    target.mkdir(parents=True, exist_ok=True)
    last = Unpacked()
    for archive, member, told in _members(pieces, max_bytes):
        last = told
        if not (member.isfile() or member.isdir() or member.islnk() or member.issym()):
            told.skipped.append((member.name, "special file"))
            continue
        try:
            _extract(archive, member, target)
        except _Refused as error:
            told.skipped.append((member.name, str(error)))
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            told.skipped.append((member.name, type(error).__name__))
    return last


def pack(source: Path) -> Generator[bytes]:
    """A directory of the host as a tar stream. Links are sent as links; owners are not sent.

    A thread writes and the caller reads, within a few pieces of memory.
    """
    if not source.is_dir():
        raise ValidationError(f"{str(source)!r} is no directory on this host")
    return _written(functools.partial(_pack, source))


def _pack(source: Path, out: IO[bytes]) -> None:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in _walk(source):
            archive.add(path, arcname=str(path.relative_to(source)), recursive=False, filter=_plain)


def _walk(source: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(source):
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            kind = path.lstat().st_mode
            if stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind):
                yield path


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode &= 0o777
    return member


class _Gone(Exception):
    """The reader stopped."""


class _Pipe(io.RawIOBase):
    def __init__(self) -> None:
        self.pieces: queue.Queue[bytes | BaseException | None] = queue.Queue(_QUEUE)
        self.stopped = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.put(bytes(data))
        return len(data)

    def put(self, item: bytes | BaseException | None) -> None:
        while not self.stopped:
            try:
                self.pieces.put(item, timeout=0.5)
            except queue.Full:
                continue
            return
        raise _Gone


def _written(write: Any) -> Generator[bytes]:
    """What a function writes into a file, as pieces."""
    pipe = _Pipe()

    def work() -> None:
        try:
            with io.BufferedWriter(pipe, _CHUNK) as out:
                write(out)
                out.flush()
                pipe.put(None)
        except _Gone:
            pass
        except BaseException as error:
            try:
                pipe.put(error)
            except _Gone:
                pass

    thread = threading.Thread(target=work, name="gloveport-archive", daemon=True)
    thread.start()
    try:
        while (piece := pipe.pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        pipe.stopped = True
        thread.join()


def zip_of_tar(pieces: Iterable[bytes], out: IO[bytes], *, max_bytes: int) -> Unpacked:
    """A tar stream as a zip file. Links and special files are left out: not every reader of zip files knows them."""
    last = Unpacked()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for source, member, told in _members(pieces, max_bytes):
            last = told
            name = member.name.removeprefix("./").lstrip("/")
            if name in ("", ".") or ".." in name.split("/"):
                continue
            info = zipfile.ZipInfo(name + ("/" if member.isdir() else ""))
            info.external_attr = (member.mode & 0o777 | (stat.S_IFDIR if member.isdir() else stat.S_IFREG)) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            if member.isdir():
                archive.writestr(info, b"")
            elif member.isfile():
                content = source.extractfile(member)
                assert content is not None
                with archive.open(info, "w", force_zip64=member.size > 2**31) as into:
                    while chunk := content.read(_CHUNK):
                        into.write(chunk)
            else:
                told.skipped.append((member.name, "link or special file"))
    return last


def pack_zip(archive: zipfile.ZipFile, out: IO[bytes]) -> None:
    """The members of a zip file as a tar stream."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as target:
        for info in archive.infolist():
            name = info.filename.rstrip("/")
            if not name or name.startswith("/") or ".." in name.split("/") or "\\" in name:
                raise ValidationError(f"the archive has a name that leads outside: {info.filename!r}")
            member = tarfile.TarInfo(name)
            mode = info.external_attr >> 16
            member.mode = (mode & 0o777) or (0o755 if info.is_dir() else 0o644)
            if info.is_dir():
                member.type = tarfile.DIRTYPE
                target.addfile(member)
                continue
            if stat.S_ISLNK(mode):
                continue
            member.size = info.file_size
            with archive.open(info) as content:
                target.addfile(member, content)


def tar_of_zip(file: IO[bytes]) -> Generator[bytes]:
    """A zip file as a tar stream. Raises `ValidationError` for one that is broken or has names that lead outside."""
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise ValidationError(f"that is no zip file: {error}") from error
    return _written(functools.partial(pack_zip, archive))
