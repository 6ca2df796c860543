"""Images by name: which layers, and what a machine starts with."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

__all__ = ("Image", "ImageStore", "image_name")

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._/-]{0,126}[a-z0-9])?(?::[A-Za-z0-9][A-Za-z0-9._-]{0,63})?")
_SUFFIX: Final = ".json"


class Image(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a machine is made of."""

    name: str
    kind: Literal["image", "template", "snapshot"] = "image"
    layers: list[str]
    """Ids, the topmost first."""
    binds: list[str] = []
    """Folders of the host that are seen read-only, at the same place."""
    keep: list[str] = []
    """Below such folders: what is the machine's own all the same."""
    env: dict[str, str] = {}
    workdir: str = "/workspace"
    user: str = ""
    """Whose commands are, by default; empty: `user` (uid 1000)."""
    made: float = 0.0
    """Unix time."""
    source: str = ""
    """What it was made from, for whoever reads it."""
    machine: str = ""
    """Of a snapshot: the machine's id."""


class ImageStore:
    """`folder/<name>.json` for each image. Any number of processes may use it at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, image: Image) -> Image:
        """Writes it down, in place of one of the same name."""
        image.made = image.made or time.time()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.folder / f".{secrets.token_hex(8)}"
        draft.write_bytes(msgspec.json.encode(image))
        os.replace(draft, self._path(image.name))
        return image

    def get(self, name: str) -> Image | None:
        """The image of that name. Raises `ValueError` for what is no name."""
        try:
            return msgspec.json.decode(self._path(name).read_bytes(), type=Image)
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> bool:
        """Whether there was one. Its layers stay until `collection.collect`."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def all(self, kind: str | None = None) -> Iterator[Image]:
        """Every image (of a kind), the oldest first."""
        found: list[Image] = []
        if self.folder.is_dir():
            for path in self.folder.glob(f"*{_SUFFIX}"):
                try:
                    found.append(msgspec.json.decode(path.read_bytes(), type=Image))
                except (OSError, msgspec.MsgspecError):
                    continue  # removed meanwhile; or of another release, which knows what it is
        yield from sorted((image for image in found if kind in (None, image.kind)), key=lambda image: image.made)

    def _path(self, name: str) -> Path:
        return self.folder / (image_name(name).replace("/", "%2F") + _SUFFIX)


def image_name(name: str) -> str:
    """The name itself. Raises `ValueError` unless it is lower-case words with `.`, `_`, `-` and `/`, and a tag behind a colon, if any."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise ValueError(
            f"{name!r} is no name of an image: write lower-case letters, digits, '.', '_', '-' and '/', as in 'tools:2'"
        )
    return name
