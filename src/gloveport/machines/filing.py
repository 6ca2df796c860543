"""Conversations about files. Paths are checked here; that links cannot lead outside is the machine's own root, not a check."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Literal

from ..errors import LimitExceededError, ProtocolViolation, ValidationError
from .steps import Disconnected, Frames, Give, Next, Steps, failure, simple
from .wire import CHUNK, Ask, Fields, Tag, Tell, encode, fields

__all__ = ("FileEvent", "FileInfo", "checked_path", "collect", "entries", "one", "receive", "stat", "store", "watch")

_TYPES: Final = {"f": "file", "d": "directory", "l": "link", "p": "pipe", "s": "socket", "c": "device", "b": "device"}
FileType = Literal["file", "directory", "link", "pipe", "socket", "device"]
_KINDS: Final = {
    "create": "created",
    "modify": "modified",
    "written": "written",
    "delete": "deleted",
    "moved-from": "moved_from",
    "moved-to": "moved_to",
    "attributes": "attributes",
    "overflow": "overflow",
}
_MAX_ENTRIES: Final = 5_000_000
_MAX_PATH: Final = 4096


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """A file, directory or link of a machine."""

    name: str
    path: str
    type: FileType
    size: int
    """Bytes."""
    mode: int
    """Permission bits."""
    mtime: float
    """Unix time in seconds."""
    uid: int
    gid: int
    target: str | None = None
    """Where a link leads, as it is written in it."""

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.type == "directory"


@dataclasses.dataclass(frozen=True)
class FileEvent:
    """Something changed below a watched path."""

    kind: str
    """`created`, `modified`, `written` (and closed), `deleted`, `moved_from`, `moved_to`, `attributes`, or `overflow`: more happened than
    could be told."""
    path: str


def checked_path(path: str, what: str = "path") -> str:
    """The path as the machine is asked for it. Raises `ValidationError` for what is not absolute, has `..` or a NUL."""
    if not isinstance(path, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"`{what}` must be a text, not {path!r}")
    if not path.startswith("/"):
        raise ValidationError(f"`{what}` must be absolute, not {path!r}", hint="write `/workspace/…` or `/home/user/…`")
    if "\0" in path or len(path.encode("utf-8", "surrogateescape")) > _MAX_PATH:
        raise ValidationError(f"`{what}` holds a NUL or is longer than {_MAX_PATH} bytes")
    if ".." in path.split("/"):
        raise ValidationError(f"`{what}` has a `..`: {path!r}", hint="write where it leads")
    return path


def _entry(body: bytes, parent: str | None = None) -> FileInfo:
    told = Fields(body)
    kind = _TYPES.get(told.text(Tag.TYPE))
    if kind is None:
        raise ProtocolViolation("a machine named a type of file that there is not")
    name, path = told.text(Tag.NAME, ""), told.text(Tag.PATH, "")
    if not path:
        path = f"{(parent or '').rstrip('/')}/{name}"
    name = name or path.rstrip("/").rpartition("/")[2] or "/"
    return FileInfo(
        name=name,
        path=path,
        type=kind,  # pyright: ignore[reportArgumentType]
        size=max(told.integer(Tag.SIZE, 0), 0),
        mode=told.integer(Tag.MODE, 0) & 0o7777,
        mtime=told.integer(Tag.MTIME_NS, 0) / 1e9,
        uid=told.integer(Tag.UID, 0),
        gid=told.integer(Tag.GID, 0),
        target=told.text(Tag.TARGET) if kind == "link" and told.has(Tag.TARGET) else None,
    )


def stat(path: str, *, follow: bool, user: str | None) -> Steps[FileInfo]:
    """What is at a path."""
    yield encode(Ask.STAT, fields((Tag.PATH, path), (Tag.FOLLOW_LINKS, 1 if follow else 0), (Tag.USER, user)))
    body = yield from Frames().expect(Tell.OK, path)
    return dataclasses.replace(_entry(body), path=path, name=path.rstrip("/").rpartition("/")[2] or "/")


def one(kind: Ask, path: str, *more: tuple[int, Any]) -> Steps[Fields]:
    """One request about one path that is answered by one `OK`."""
    return simple(encode(kind, fields((Tag.PATH, path), *more)), path)


def entries(kind: Ask, path: str, *more: tuple[int, Any]) -> Steps[list[FileInfo]]:
    """A listing."""
    yield encode(kind, fields((Tag.PATH, path), *more))
    frames, found = Frames(), list[FileInfo]()
    while True:
        tell, body = yield from frames.next()
        if tell is Tell.END:
            return found
        if tell is Tell.ERROR:
            raise failure(body, path)
        if tell is not Tell.ENTRY or len(found) >= _MAX_ENTRIES:
            raise ProtocolViolation(f"a machine sent {tell.name} in a listing")
        found.append(_entry(body, path))


def receive(kind: Ask, path: str, *more: tuple[int, Any]) -> Steps[None]:
    """A stream of bytes out of the machine, piece by piece."""
    yield encode(kind, fields((Tag.PATH, path), *more))
    frames = Frames()
    while True:
        tell, body = yield from frames.next()
        if tell is Tell.END:
            return
        if tell is Tell.ERROR:
            raise failure(body, path)
        if tell is not Tell.DATA:
            raise ProtocolViolation(f"a machine sent {tell.name} in a stream of bytes")
        if body:
            yield Give(body)


def collect(steps: Steps[None], most: int, path: str) -> Steps[bytes]:
    """All of a stream at once. Raises `LimitExceededError` when it is more than `most` bytes."""
    parts, size, answer = list[bytes](), 0, None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return b"".join(parts)
        answer = None
        if isinstance(step, Give):
            parts.append(step.item)
            size += len(step.item)
            if size > most:
                raise LimitExceededError(
                    f"{path!r} has more than {most} bytes",
                    limit="output",
                    hint="raise `max_bytes`, or read it as a stream",
                )
        else:
            answer = yield step


def store(
    kind: Ask, path: str, source: bytes | Iterator[bytes] | AsyncIterator[bytes], *more: tuple[int, Any]
) -> Steps[int]:
    """A stream of bytes into the machine. Gives how many."""
    head = encode(kind, fields((Tag.PATH, path), *more))
    frames, total = Frames(), 0
    try:
        if isinstance(source, bytes):
            if len(source) <= CHUNK:
                yield b"".join([head, encode(Ask.DATA, source) if source else b"", encode(Ask.END)])  # one system call
            else:
                yield head
                for at in range(0, len(source), CHUNK):
                    yield encode(Ask.DATA, source[at : at + CHUNK])
                yield encode(Ask.END)
            total = len(source)
        else:
            yield head
            while (data := (yield Next(source))) is not None:
                for at in range(0, len(data), CHUNK):
                    yield encode(Ask.DATA, bytes(data[at : at + CHUNK]))
                total += len(data)
            yield encode(Ask.END)
    except Disconnected:
        # The machine refused before it had read everything, and closed: what it said is still there to be read.
        yield from frames.expect(Tell.OK, path)
        raise
    yield from frames.expect(Tell.OK, path)
    return total


def watch(path: str, *, recursive: bool, user: str | None) -> Steps[None]:
    """Events below a path, until the reader stops. First it gives `None`: from then on it sees everything."""
    yield encode(Ask.WATCH, fields((Tag.PATH, path), (Tag.RECURSIVE, 1 if recursive else 0), (Tag.USER, user)))
    frames = Frames()
    while True:
        tell, body = yield from frames.next()
        if tell is Tell.ERROR:
            raise failure(body, path)
        if tell is Tell.OK:
            yield Give(None)
            continue
        if tell is not Tell.EVENT:
            raise ProtocolViolation(f"a machine sent {tell.name} while a path was watched")
        told = Fields(body)
        yield Give(FileEvent(kind=_KINDS.get(told.text(Tag.KIND), "modified"), path=told.text(Tag.PATH, path)))
