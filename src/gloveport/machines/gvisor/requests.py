"""Requests as the supervisor's side reads them."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

__all__ = ("read_request",)

_HEADER: Final = struct.Struct("<IB")
_MOST: Final = 64 * 1024


async def read_request(
    loop: asyncio.AbstractEventLoop, client: socket.socket, buffer: bytearray
) -> tuple[int, bytes] | None:
    """The next frame; `None` at the end. Raises `ValueError` for one that is larger than any request."""
    while True:
        if len(buffer) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(buffer)
            if not 1 <= length <= _MOST:
                raise ValueError("a request that is none")
            if len(buffer) >= 4 + length:
                body = bytes(buffer[_HEADER.size : 4 + length])
                del buffer[: 4 + length]
                return kind, body
        data = await loop.sock_recv(client, _MOST)
        if not data:
            return None
        buffer += data
