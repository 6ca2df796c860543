"""What a screenshot shows, by structure: where the areas of a colour are."""

from __future__ import annotations

import struct
import zlib

Pixel = tuple[int, int, int]


def rows(png: bytes) -> list[list[Pixel]]:
    """The pixels of an 8-bit RGB or RGBA image that is not interlaced (PNG, third edition, sections 5 and 9)."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, header = 8, b"", b""
    while at < len(png):
        (length,), kind = struct.unpack_from(">I", png, at), png[at + 4 : at + 8]
        body = png[at + 8 : at + 8 + length]
        header, data = (body if kind == b"IHDR" else header), data + (body if kind == b"IDAT" else b"")
        at += 12 + length
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, interlaced) == (8, 0) and colour in (2, 6)
    step = 3 if colour == 2 else 4
    raw, before, found = zlib.decompress(data), bytearray(width * step), []
    for y in range(height):
        start = y * (width * step + 1)
        line = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * step]), before, step)
        found.append([(line[x], line[x + 1], line[x + 2]) for x in range(0, len(line), step)])
        before = line
    return found


def _unfiltered(kind: int, line: bytearray, up: bytearray, step: int) -> bytearray:
    for i in range(len(line) if kind else 0):
        left, corner = (line[i - step], up[i - step]) if i >= step else (0, 0)
        line[i] = (line[i] + (left, up[i], (left + up[i]) // 2, _paeth(left, up[i], corner))[kind - 1]) & 255
    return line


def _paeth(a: int, b: int, c: int) -> int:
    near = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
    return (a, b, c)[near.index(min(near))]


def areas(png: bytes, *, least: int = 40) -> dict[Pixel, tuple[int, int, int, int]]:
    """Each colour with at least so many pixels: x, y, width and height of the box around them."""
    boxes: dict[Pixel, list[int]] = {}
    for y, row in enumerate(rows(png)):
        for x, pixel in enumerate(row):
            box = boxes.setdefault(pixel, [x, y, x, y, 0])
            box[0], box[2], box[3] = min(box[0], x), max(box[2], x), y
            box[4] += 1
    return {
        pixel: (x, y, right - x + 1, bottom - y + 1) for pixel, (x, y, right, bottom, n) in boxes.items() if n >= least
    }
