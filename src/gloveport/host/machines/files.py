"""Files of a machine, for blocking code."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, Literal

from ...errors import FileNotFoundInSandboxError, LimitExceededError, ValidationError
from ...machines.box import Box
from ...machines.filing import FileEvent, FileInfo
from ...machines.wire import Ask, Tag
from .archives import Unpacked, pack, tar_of_zip, unpack, zip_of_tar
from .plans import MAX_READ_BYTES, Bytes, FilePlans

__all__ = ("MAX_DIRECTORY_BYTES", "Files", "pieces_of", "sent_once")

MAX_DIRECTORY_BYTES = 8 * 1024**3
ArchiveFormat = Literal["tar", "zip"]


def pieces_of(file: IO[bytes], size: int = 256 * 1024) -> Generator[bytes]:
    """A file of the host as pieces."""
    while piece := file.read(size):
        yield piece


class Files:
    """`sandbox.files`. Paths are absolute, without `..`; they are followed by the machine itself, so no link leads outside of it.

    Everything is done as the machine's user, or as `user`. What fails is a `SandboxFileError` that is also the builtin error of its
    kind: `FileNotFoundInSandboxError` is a `FileNotFoundError`.
    """

    def __init__(self, box: Box) -> None:
        self._channel = box.channel
        self._plans = FilePlans(box)

    def read(
        self,
        path: str,
        *,
        offset: int = 0,
        length: int | None = None,
        max_bytes: int = MAX_READ_BYTES,
        user: str | None = None,
    ) -> bytes:
        """The bytes of a file, or a range of them. Raises `LimitExceededError` for more than `max_bytes`: see `read_stream`."""
        return self._channel.run(self._plans.read_all(path, offset, length, user, max_bytes))

    def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "replace", user: str | None = None) -> str:
        """The text of a file. What is not in the encoding is replaced by U+FFFD."""
        return self.read(path, user=user).decode(encoding, errors)

    def read_stream(
        self, path: str, *, offset: int = 0, length: int | None = None, user: str | None = None
    ) -> Iterator[bytes]:
        """The bytes of a file of any size, piece by piece."""
        return self._channel.stream(self._plans.read(path, offset, length, user)())

    def write(
        self,
        path: str,
        data: Bytes | Iterator[bytes],
        *,
        mode: int | None = None,
        atomic: bool = True,
        user: str | None = None,
    ) -> int:
        """Write a file, and the directories above it. Gives the number of bytes.

        `data` may be an iterator, for any size. With `atomic` the file is the old one or the new one, never a part of it, also when
        the disk is full or the machine is killed.
        """
        return self._channel.run(
            self._plans.write(path, data, mode=mode, append=False, atomic=atomic, user=user), once=sent_once(data)
        )

    def write_many(self, files: Mapping[str, Bytes], *, user: str | None = None) -> None:
        """Several files. Not as one step: those before one that fails are written."""
        for path, data in files.items():
            self.write(path, data, user=user)

    def append(self, path: str, data: Bytes | Iterator[bytes], *, user: str | None = None) -> int:
        """Add to the end of a file, which is made when it is missing."""
        return self._channel.run(
            self._plans.write(path, data, mode=None, append=True, atomic=False, user=user), once=sent_once(data)
        )

    def stat(self, path: str, *, follow: bool = True, user: str | None = None) -> FileInfo:
        """What is there; with `follow=False` a link itself."""
        return self._channel.run(self._plans.stat(path, follow, user))

    def exists(self, path: str, *, user: str | None = None) -> bool:
        """Whether something is there."""
        try:
            self.stat(path, user=user)
        except (FileNotFoundInSandboxError, NotADirectoryError):
            return False
        return True

    def list(self, path: str, *, depth: int = 1, user: str | None = None) -> list[FileInfo]:
        """What is in a directory, and with a greater `depth` below it. Links are not followed."""
        return self._channel.run(self._plans.listing(path, depth, user))

    def glob(self, pattern: str, path: str = "/workspace", *, user: str | None = None) -> list[FileInfo]:
        """What is below `path` and fits a pattern of `*`, `?`, `[…]` and `**` (any number of directories)."""
        return self._channel.run(self._plans.glob(pattern, path, user))

    def make_dir(self, path: str, *, parents: bool = True, mode: int | None = None, user: str | None = None) -> None:
        """Make a directory, with `parents` also those above it, and without an error when it exists."""
        self._channel.run(self._plans.make_dir(path, parents, mode, user))

    def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        """Remove a file, a link or an empty directory; with `recursive` a whole tree. Never `/`, `/workspace`, `/home/user`."""
        self._channel.run(self._plans.remove(path, recursive, user))

    def move(self, path: str, to: str, *, replace: bool = True, user: str | None = None) -> None:
        """Give it another path."""
        self._channel.run(self._plans.two(Ask.MOVE, path, to, user, (Tag.REPLACE, 1 if replace else 0)))

    def copy(self, path: str, to: str, *, user: str | None = None) -> None:
        """A copy of a file or of a tree."""
        self._channel.run(self._plans.two(Ask.COPY, path, to, user, (Tag.RECURSIVE, 1)))

    def symlink(self, path: str, to: str, *, user: str | None = None) -> None:
        """Make `path` a link to `to`."""
        self._channel.run(self._plans.two(Ask.SYMLINK, path, to, user, link=True))

    def chmod(self, path: str, mode: int, *, recursive: bool = False, user: str | None = None) -> None:
        """Set permission bits."""
        self._channel.run(self._plans.chmod(path, mode, recursive, user))

    def realpath(self, path: str, *, user: str | None = None) -> str:
        """The path without links; what does not exist is taken as it is written."""
        return self._channel.run(self._plans.realpath(path, user)).text(Tag.PATH)

    def watch(self, path: str, *, recursive: bool = False, user: str | None = None) -> Generator[FileEvent, None, None]:
        """What happens below a path from now on, until the iterator is closed. Raises what `stat` raises."""
        events = self._channel.stream(self._plans.watch(path, recursive, user)())
        next(events)  # it watches
        return events

    # ── directories ──────────────────────────────────────────────────────────────────────────────────────────────────

    def download_dir(
        self,
        path: str,
        to: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = MAX_DIRECTORY_BYTES,
        user: str | None = None,
    ) -> Unpacked | bytes:
        """A directory of the machine into one of the host; without `to`, the bytes of a zip file.

        Nothing lands outside of `to`, whatever the machine says: links that lead outside, devices and set-id bits are left out and
        listed in `skipped`.
        """
        with contextlib.closing(self._channel.stream(self._plans.tar_out(path, user)())) as pieces:
            if to is not None:
                return unpack(pieces, Path(to), max_bytes=max_bytes)
            out = io.BytesIO()
            zip_of_tar(pieces, out, max_bytes=min(max_bytes, MAX_READ_BYTES))
            return out.getvalue()

    def upload_dir(self, source: str | os.PathLike[str], path: str, *, user: str | None = None) -> int:
        """A directory of the host into one of the machine. Gives the bytes of the stream."""
        with contextlib.closing(pack(Path(source))) as pieces:
            return self._channel.run(self._plans.tar_in(path, pieces, user), once=True)

    def download_archive(
        self,
        path: str,
        to: str | os.PathLike[str] | IO[bytes],
        *,
        format: ArchiveFormat = "tar",  # noqa: A002
        max_bytes: int = MAX_DIRECTORY_BYTES,
        user: str | None = None,
    ) -> None:
        """A directory of the machine as a tar or zip file on the host. A tar file is what the machine sent: unpack it with care. It has
        at most `max_bytes`; of a zip file its contents do. Raises `LimitExceededError`."""
        checked_format(format)  # before a file is made
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(open(to, "wb")) if isinstance(to, (str, os.PathLike)) else to
            pieces = stack.enter_context(contextlib.closing(self._channel.stream(self._plans.tar_out(path, user)())))
            if format == "zip":
                zip_of_tar(pieces, out, max_bytes=max_bytes)
            else:
                for piece in _bounded(pieces, max_bytes):
                    out.write(piece)

    def upload_archive(
        self,
        source: str | os.PathLike[str] | IO[bytes],
        path: str,
        *,
        format: ArchiveFormat = "tar",  # noqa: A002
        user: str | None = None,
    ) -> None:
        """Unpack a tar or zip file of the host in a directory of the machine, by the machine."""
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(source, "rb")) if isinstance(source, (str, os.PathLike)) else source
            pieces = tar_of_zip(file) if checked_format(format) == "zip" else pieces_of(file)
            stack.enter_context(contextlib.closing(pieces))
            self._channel.run(self._plans.tar_in(path, pieces, user), once=True)


def checked_format(format: str) -> str:  # noqa: A002
    """`tar` or `zip`. Raises `ValidationError`."""
    if format not in ("tar", "zip"):
        raise ValidationError(f"`format` must be 'tar' or 'zip', not {format!r}")
    return format


def _bounded(pieces: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    count = 0
    for piece in pieces:
        count += len(piece)
        if count > max_bytes:
            raise LimitExceededError(
                f"the archive has more than {max_bytes} bytes", limit="output", hint="raise `max_bytes`"
            )
        yield piece


def sent_once(data: object) -> bool:
    """Whether it can be sent only once."""
    return not isinstance(data, (str, bytes, bytearray, memoryview))
