"""Files of a machine, for asyncio and trio. See `Files` for what each does."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import IO

from anyio.to_thread import run_sync

from ...errors import FileNotFoundInSandboxError
from ...machines.box import Box
from ...machines.filing import FileEvent, FileInfo
from ...machines.wire import Ask, Tag
from .archives import Unpacked
from .files import MAX_DIRECTORY_BYTES, ArchiveFormat, Files, sent_once
from .plans import MAX_READ_BYTES, Bytes, FilePlans

__all__ = ("AsyncFiles",)


class AsyncFiles:
    """`sandbox.files`."""

    def __init__(self, box: Box) -> None:
        self._channel = box.channel
        self._plans = FilePlans(box)
        self._blocking = Files(box)

    async def read(
        self,
        path: str,
        *,
        offset: int = 0,
        length: int | None = None,
        max_bytes: int = MAX_READ_BYTES,
        user: str | None = None,
    ) -> bytes:
        """The bytes of a file, or a range of them."""
        return await self._channel.run_async(self._plans.read_all(path, offset, length, user, max_bytes))

    async def read_text(
        self, path: str, *, encoding: str = "utf-8", errors: str = "replace", user: str | None = None
    ) -> str:
        """The text of a file."""
        return (await self.read(path, user=user)).decode(encoding, errors)

    def read_stream(
        self, path: str, *, offset: int = 0, length: int | None = None, user: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a file of any size, piece by piece."""
        return self._channel.stream_async(self._plans.read(path, offset, length, user)())

    async def write(
        self,
        path: str,
        data: Bytes | Iterator[bytes] | AsyncIterator[bytes],
        *,
        mode: int | None = None,
        atomic: bool = True,
        user: str | None = None,
    ) -> int:
        """Write a file, and the directories above it. `data` may be an async iterator."""
        make = self._plans.write(path, data, mode=mode, append=False, atomic=atomic, user=user)
        return await self._channel.run_async(make, once=sent_once(data))

    async def write_many(self, files: Mapping[str, Bytes], *, user: str | None = None) -> None:
        """Several files."""
        for path, data in files.items():
            await self.write(path, data, user=user)

    async def append(
        self, path: str, data: Bytes | Iterator[bytes] | AsyncIterator[bytes], *, user: str | None = None
    ) -> int:
        """Add to the end of a file."""
        make = self._plans.write(path, data, mode=None, append=True, atomic=False, user=user)
        return await self._channel.run_async(make, once=sent_once(data))

    async def stat(self, path: str, *, follow: bool = True, user: str | None = None) -> FileInfo:
        """What is there."""
        return await self._channel.run_async(self._plans.stat(path, follow, user))

    async def exists(self, path: str, *, user: str | None = None) -> bool:
        """Whether something is there."""
        try:
            await self.stat(path, user=user)
        except (FileNotFoundInSandboxError, NotADirectoryError):
            return False
        return True

    async def list(self, path: str, *, depth: int = 1, user: str | None = None) -> list[FileInfo]:
        """What is in a directory."""
        return await self._channel.run_async(self._plans.listing(path, depth, user))

    async def glob(self, pattern: str, path: str = "/workspace", *, user: str | None = None) -> list[FileInfo]:
        """What is below `path` and fits a pattern."""
        return await self._channel.run_async(self._plans.glob(pattern, path, user))

    async def make_dir(
        self, path: str, *, parents: bool = True, mode: int | None = None, user: str | None = None
    ) -> None:
        """Make a directory."""
        await self._channel.run_async(self._plans.make_dir(path, parents, mode, user))

    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        """Remove a file, a link or a directory."""
        await self._channel.run_async(self._plans.remove(path, recursive, user))

    async def move(self, path: str, to: str, *, replace: bool = True, user: str | None = None) -> None:
        """Give it another path."""
        await self._channel.run_async(self._plans.two(Ask.MOVE, path, to, user, (Tag.REPLACE, 1 if replace else 0)))

    async def copy(self, path: str, to: str, *, user: str | None = None) -> None:
        """A copy of a file or of a tree."""
        await self._channel.run_async(self._plans.two(Ask.COPY, path, to, user, (Tag.RECURSIVE, 1)))

    async def symlink(self, path: str, to: str, *, user: str | None = None) -> None:
        """Make `path` a link to `to`."""
        await self._channel.run_async(self._plans.two(Ask.SYMLINK, path, to, user, link=True))

    async def chmod(self, path: str, mode: int, *, recursive: bool = False, user: str | None = None) -> None:
        """Set permission bits."""
        await self._channel.run_async(self._plans.chmod(path, mode, recursive, user))

    async def realpath(self, path: str, *, user: str | None = None) -> str:
        """The path without links."""
        return (await self._channel.run_async(self._plans.realpath(path, user))).text(Tag.PATH)

    async def watch(
        self, path: str, *, recursive: bool = False, user: str | None = None
    ) -> AsyncGenerator[FileEvent, None]:
        """What happens below a path from now on, until the iterator is closed: `async for event in await files.watch(path)`."""
        events = self._channel.stream_async(self._plans.watch(path, recursive, user)())
        try:
            await anext(events)  # it watches
        except BaseException:
            await events.aclose()
            raise
        return events

    async def download_dir(
        self,
        path: str,
        to: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = MAX_DIRECTORY_BYTES,
        user: str | None = None,
    ) -> Unpacked | bytes:
        """A directory of the machine into one of the host; without `to`, the bytes of a zip file."""
        return await run_sync(functools.partial(self._blocking.download_dir, path, to, max_bytes=max_bytes, user=user))

    async def upload_dir(self, source: str | os.PathLike[str], path: str, *, user: str | None = None) -> int:
        """A directory of the host into one of the machine."""
        return await run_sync(functools.partial(self._blocking.upload_dir, source, path, user=user))

    async def download_archive(
        self,
        path: str,
        to: str | os.PathLike[str] | IO[bytes],
        *,
        format: ArchiveFormat = "tar",  # noqa: A002
        max_bytes: int = MAX_DIRECTORY_BYTES,
        user: str | None = None,
    ) -> None:
        """A directory of the machine as a tar or zip file on the host."""
        await run_sync(
            functools.partial(self._blocking.download_archive, path, to, format=format, max_bytes=max_bytes, user=user)
        )

    async def upload_archive(
        self,
        source: str | os.PathLike[str] | IO[bytes],
        path: str,
        *,
        format: ArchiveFormat = "tar",  # noqa: A002
        user: str | None = None,
    ) -> None:
        """Unpack a tar or zip file of the host in a directory of the machine, by the machine."""
        await run_sync(functools.partial(self._blocking.upload_archive, source, path, format=format, user=user))
