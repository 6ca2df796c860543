"""Heap images: `zlib(u32 stack pointer, u32 memory size, u32 page count, offsets, pages)`. See wire/PROTOCOL.md.

`Layout` is what an image must agree with; `parse` checks every field before anything is written anywhere.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import ImageError

__all__ = ("Image", "Layout", "pack", "parse")

PAGE: Final = 4096
WASM_PAGE: Final = 65536
_HEAD: Final = struct.Struct("<III")


@dataclass(frozen=True, slots=True)
class Layout:
    """Of the guest that an image is for."""

    stack_pointer: int
    """Of an idle guest, which is the only kind that has images; what lies below is dead."""
    flag_offset: int
    """The interrupt page, which is in no image."""
    base_size: int
    memory_limit: int


@dataclass(frozen=True, slots=True)
class Image:
    """A checked image."""

    size: int
    """Bytes of memory."""
    offsets: tuple[int, ...]
    data: bytes
    """The inflated image; the page of `offsets[i]` begins at `pages_at + i * 4096`."""

    @property
    def pages_at(self) -> int:
        return _HEAD.size + 4 * len(self.offsets)


def pack(layout: Layout, size: int, offsets: Sequence[int], pages: Sequence[bytes]) -> bytes:
    """The image of these pages."""
    head = _HEAD.pack(layout.stack_pointer, size, len(offsets)) + struct.pack(f"<{len(offsets)}I", *offsets)
    compressor = zlib.compressobj(1)
    return b"".join((compressor.compress(head), compressor.compress(b"".join(pages)), compressor.flush()))


def parse(image: bytes, layout: Layout) -> Image:
    """Inflate and check. Raises `ImageError` naming the field; never inflates to more than the memory limit allows."""
    data = _inflate(image, layout.memory_limit)
    if len(data) < _HEAD.size:
        raise ImageError("the image is shorter than its header")
    stack_pointer, size, count = _HEAD.unpack_from(data)
    if stack_pointer != layout.stack_pointer:
        raise ImageError(f"stack pointer {stack_pointer} is not that of an idle guest of this build")
    if size % WASM_PAGE or not layout.base_size <= size <= layout.memory_limit:
        raise ImageError(
            f"memory size {size} is not within the base size and the memory limit of {layout.memory_limit}"
        )
    if len(data) != _HEAD.size + count * (4 + PAGE):
        raise ImageError(f"{count} pages do not make {len(data)} bytes")
    offsets: tuple[int, ...] = struct.unpack_from(f"<{count}I", data, _HEAD.size)
    lowest = layout.stack_pointer - layout.stack_pointer % PAGE
    previous = lowest - PAGE
    for offset in offsets:
        if (
            offset % PAGE
            or offset <= previous
            or offset < lowest
            or offset + PAGE > size
            or offset == layout.flag_offset
        ):
            raise ImageError(f"page offset {offset} is out of order, out of range or not a page")
        previous = offset
    return Image(size, offsets, data)


def _inflate(image: bytes, memory_limit: int) -> bytes:
    limit = _HEAD.size + memory_limit // PAGE * (4 + PAGE)
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(image, limit + 1)
    except zlib.error as error:
        raise ImageError(f"the image is not compressed data: {error}") from None
    if len(data) > limit:
        raise ImageError(f"the image inflates past the memory limit of {memory_limit} bytes")
    if not inflater.eof or inflater.unused_data:
        raise ImageError("the image is cut off or has something after its end")
    return data
