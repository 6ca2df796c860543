"""Images of other tools: OCI image layouts (folders or archives) and what `docker save` writes."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import platform
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, TypeVar, cast

import msgspec

from .layers import LayerStore
from .manifests import Image
from .unpacking import unpack

__all__ = ("import_archive",)

_MAX_JSON: Final = 4 << 20
_CHUNK: Final = 1 << 20
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_DAMAGED: Final = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
Said = Callable[[str], None]
T = TypeVar("T")


class _Platform(msgspec.Struct):
    architecture: str | None = None
    os: str | None = None


class _Blob(msgspec.Struct):
    """A content descriptor: https://github.com/opencontainers/image-spec/blob/v1.1.1/descriptor.md"""

    digest: str
    platform: _Platform | None = None


class _Manifest(msgspec.Struct):
    """An index, or a manifest of one image."""

    manifests: list[_Blob] | None = None
    layers: list[_Blob] | None = None
    config: _Blob | None = None


class _Saved(msgspec.Struct, rename="pascal"):
    """One image in the `manifest.json` of `docker save`."""

    config: str
    layers: list[str]


class _Layers(msgspec.Struct):
    diff_ids: list[str] = []


class _Settings(msgspec.Struct, rename="pascal"):
    env: list[str] | None = None
    working_dir: str | None = None
    user: str | None = None


class _Config(_Platform):
    rootfs: _Layers = msgspec.field(default_factory=_Layers)
    config: _Settings | None = None


def import_archive(path: Path, name: str, layers: LayerStore, say: Said = lambda _: None) -> Image:
    """The image that a file or folder holds: an OCI image layout, an archive of one or of `docker save`, or a tar archive of a root
    file system. Digests are checked; the layers are read once each.

    Of the configuration, environment, working directory and user are kept; its command is not run. Raises `ValueError` for what is
    none of these, with the reason, and for an image of another architecture.
    """
    try:
        return _imported(path, name, layers, say)
    except _DAMAGED as error:
        raise ValueError(f"it is damaged: {error}") from error


def _imported(path: Path, name: str, layers: LayerStore, say: Said) -> Image:
    if path.is_dir():
        return _Layout(_Folder(path), name, layers, say).image()
    if not path.is_file():
        raise ValueError(f"{path.name} is neither a file nor a folder")
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(0)
        if head == _ZSTD:
            raise ValueError(f"{path.name} is compressed with zstd: unpack it first (`zstd -d`)")
        members = _members(file)
        file.seek(0)
        if members is None:
            packed = gzip.GzipFile(fileobj=file) if head.startswith(_GZIP) else file
            return _root_archive(cast("IO[bytes]", packed), path, name, layers, say)
        with tempfile.TemporaryDirectory(prefix="gloveport-image-") as scratch:
            with tarfile.open(fileobj=file, mode="r:*") as archive:
                _extract_blobs(archive, Path(scratch))
            return _Layout(_Folder(Path(scratch)), name, layers, say).image()


def _members(file: IO[bytes]) -> set[str] | None:
    """The first names of an archive that is an image; `None` for one of a root file system."""
    try:
        with tarfile.open(fileobj=file, mode="r|*") as archive:
            names: set[str] = set()
            for member, _ in zip(archive, range(200), strict=False):
                names.add(str(PurePosixPath(member.name)))
                if {"oci-layout", "index.json", "manifest.json"} & names:
                    return names
                if {"usr", "etc", "bin"} & {name.split("/")[0] for name in names}:
                    return None
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"this is no archive that can be read: {error}") from error
    return names if any(name.startswith("blobs") for name in names) else None


def _extract_blobs(archive: tarfile.TarFile, into: Path) -> None:
    """Regular files only, by plain relative names."""
    for member in archive:
        where = PurePosixPath(member.name)
        if member.isreg() and not where.is_absolute() and ".." not in where.parts:
            target = into.joinpath(*where.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            given = archive.extractfile(member)
            with target.open("wb") as made:
                while given and (chunk := given.read(_CHUNK)):
                    made.write(chunk)


def _root_archive(file: IO[bytes], path: Path, name: str, layers: LayerStore, say: Said) -> Image:
    say(f"unpacking {path.name}")
    with layers.staging() as staging:
        unpack(file, staging.tree, layers.owners)
        while file.read(_CHUNK):  # the checksum is behind the archive's end
            pass
        if not any((staging.tree / part).is_dir() for part in ("usr", "bin")):
            raise ValueError(f"{path.name} holds no root file system: there is neither /usr nor /bin in it")
        layer = layers.commit(staging, source=path.name)
    return Image(name=name, layers=[layer], source=path.name)


class _Folder:
    """The files of an image."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def open(self, name: str) -> IO[bytes]:
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder):
            raise ValueError(f"{name!r} leads out of the image")
        try:
            return path.open("rb")
        except OSError as error:
            raise ValueError(f"the image lacks {name!r}: {error}") from None

    def json(self, kind: type[T], name: str, digest: str = "") -> T:
        with self.open(name) as file:
            text = file.read(_MAX_JSON + 1)
        if len(text) > _MAX_JSON:
            raise ValueError(f"{name!r} is larger than any manifest")
        if digest and hashlib.sha256(text).hexdigest() != digest:
            raise ValueError(f"{name!r} is not what the image says it is: its digest differs")
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"{name!r} is not what it should be: {error}") from None

    def has(self, name: str) -> bool:
        return (self._folder / name).is_file()


class _Layout:
    def __init__(self, files: _Folder, name: str, layers: LayerStore, say: Said) -> None:
        self._files = files
        self._name = name
        self._layers = layers
        self._say = say

    def image(self) -> Image:
        if self._files.has("index.json"):
            config, blobs = self._of_layout()
        elif self._files.has("manifest.json"):
            config, blobs = self._of_docker()
        else:
            raise ValueError("this is no image: it has neither index.json (OCI) nor manifest.json (docker save)")
        self._check_platform(config)
        diffs = config.rootfs.diff_ids
        if len(diffs) != len(blobs):
            raise ValueError("the image's configuration and its manifest disagree about the layers")
        made = [
            self._layer(blob, diff, i, len(blobs)) for i, (blob, diff) in enumerate(zip(blobs, diffs, strict=True), 1)
        ]
        given = config.config or _Settings()
        pairs = (text.partition("=") for text in given.env or ())
        return Image(
            name=self._name,
            layers=made[::-1],
            env={key: value for key, _, value in pairs if key},
            workdir=given.working_dir or "/workspace",
            user=given.user or "",
            source=f"an image of {config.os or 'linux'}/{config.architecture or '?'}",
        )

    def _of_layout(self) -> tuple[_Config, list[tuple[str, str]]]:
        described = self._files.json(_Manifest, "index.json")
        for _ in range(3):  # an index of indexes, as of several architectures, is not deeper
            if described.manifests is None:
                break
            described = self._files.json(_Manifest, *_blob(self._chosen(described.manifests).digest))
        if described.layers is None or described.config is None:
            raise ValueError("the image's index leads to no manifest")
        config = self._files.json(_Config, *_blob(described.config.digest))
        return config, [_blob(layer.digest) for layer in described.layers]

    def _of_docker(self) -> tuple[_Config, list[tuple[str, str]]]:
        entries = self._files.json(list[_Saved], "manifest.json")
        if not entries:
            raise ValueError("the archive holds no image")
        return self._files.json(_Config, entries[0].config), [(layer, "") for layer in entries[0].layers]

    def _chosen(self, manifests: list[_Blob]) -> _Blob:
        for manifest in manifests:
            if _is_ours(manifest.platform or _Platform()):
                return manifest
        raise ValueError(f"the image has nothing for linux/{_ours()}")

    def _check_platform(self, config: _Config) -> None:
        if not _is_ours(config):
            raise ValueError(f"the image is for {config.os}/{config.architecture}, and this is linux/{_ours()}")

    def _layer(self, blob: tuple[str, str], diff: str, number: int, count: int) -> str:
        name, digest = blob
        expected = _blob(diff)[1]
        known = f"oci-{expected[:32]}"
        if f"{known}-{self._layers.owners.key}" in self._layers:
            return f"{known}-{self._layers.owners.key}"
        self._say(f"unpacking layer {number} of {count}")
        with self._layers.staging() as staging:
            with self._files.open(name) as packed:
                outer = _Digested(packed)
                inner = _Digested(_opened(outer))
                unpack(cast("IO[bytes]", inner), staging.tree, self._layers.owners, whiteouts=True)
                inner.drain()
                outer.drain()
            if digest and outer.hexdigest() != digest:
                raise ValueError(f"layer {number} is not what the manifest says it is: its digest differs")
            if inner.hexdigest() != expected:
                raise ValueError(f"layer {number} is not what the configuration says it is: its digest differs")
            os.rename(staging.tree, staged := staging.folder / "checked")

            def take(other: Any) -> None:
                os.rmdir(other.tree)
                os.rename(staged, other.tree)

            return self._layers.made_once(known, take, source=diff)


def _ours() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _is_ours(where: _Platform) -> bool:
    return where.architecture in (None, _ours()) and where.os in (None, "linux")


def _blob(digest: str) -> tuple[str, str]:
    """Where the blob of that digest is, and the digest's hexadecimal digits."""
    found = _DIGEST.fullmatch(digest)
    if found is None:
        raise ValueError(f"{digest[:100]!r} is no SHA-256 digest")
    return f"blobs/sha256/{found[1]}", found[1]


def _opened(packed: _Digested) -> IO[bytes]:
    head = packed.peek()
    if head == _ZSTD:
        raise ValueError("the image's layers are compressed with zstd: save it with gzip instead")
    return cast("IO[bytes]", gzip.GzipFile(fileobj=packed) if head.startswith(_GZIP) else packed)


class _Digested(io.RawIOBase):
    """A stream whose digest is taken on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._ahead = b""

    def readable(self) -> bool:
        return True

    def peek(self) -> bytes:
        """The first four bytes, before anything is read."""
        self._ahead = self._file.read(4)
        self._hash.update(self._ahead)
        return self._ahead

    def read(self, size: int = -1) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._ahead:
            size = len(self._ahead) if size < 0 else size
            given, self._ahead = self._ahead[:size], self._ahead[size:]
            return given
        chunk = self._file.read(_CHUNK if size < 0 else size)
        self._hash.update(chunk)
        return chunk

    def drain(self) -> None:
        """Reads what a reader has left at the end."""
        self._ahead = b""
        while self.read(_CHUNK):
            pass

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
