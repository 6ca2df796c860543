"""Connections into a box, made by its agent: a frame that asks for a port, then bytes."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Final

from ....errors import HttpFetchError

__all__ = ("dial_box", "unix_address")

_DIAL, _OK, _ERROR = 0x25, 0x80, 0x81
_PORT, _MESSAGE = 44, 61
_MAX_REPLY: Final = 64 * 1024
_LENGTH: Final = struct.Struct("<I")
_FIELD: Final = struct.Struct("<BI")


def unix_address(directory: int, name: str) -> str:
    """A socket's name however long the path of its directory is: `sun_path` has 107 bytes."""
    return f"/proc/self/fd/{directory}/{name}"


async def dial_box(folder: str, port: int, timeout: float) -> socket.socket:
    """A connection to a port of the box. A box that sleeps is woken, if it may be. Raises `HttpFetchError`, `OSError`, `TimeoutError`."""
    loop = asyncio.get_running_loop()
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(timeout):
            await loop.sock_connect(sock, unix_address(directory, "agent.sock"))
            body = bytes([_DIAL]) + _FIELD.pack(_PORT, 8) + port.to_bytes(8, "little", signed=True)
            await loop.sock_sendall(sock, _LENGTH.pack(len(body)) + body)
            (length,) = _LENGTH.unpack(await _exactly(sock, 4))
            if not 1 <= length <= _MAX_REPLY:
                raise HttpFetchError("the sandbox does not answer as it should")
            reply = await _exactly(sock, length)
        if reply[0] != _OK:
            raise HttpFetchError(_message(reply) if reply[0] == _ERROR else "the sandbox does not answer as it should")
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    return sock


async def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await asyncio.get_running_loop().sock_recv(sock, count - len(data))
        if not more:
            raise HttpFetchError("the sandbox has ended")
        data += more
    return data


def _message(reply: bytes) -> str:
    at = 1
    while at + _FIELD.size <= len(reply):
        tag, length = _FIELD.unpack_from(reply, at)
        at += _FIELD.size
        if tag == _MESSAGE:
            return reply[at : at + min(length, 300)].decode("utf-8", "replace")
        at += length
    return "the sandbox refuses"
