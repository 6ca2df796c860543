"""Bytes of a connection, with TLS or without, over sockets that do not block."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

__all__ = ("PlainStream", "Stream", "TlsStream", "server_context")

_READ: Final = 64 * 1024
_LEAVING: Final = 2.0
_PROTOCOLS: Final = ["http/1.1"]


def server_context(pem: str) -> ssl.SSLContext:
    """For speaking as whom the certificate (chain and key) is for. Raises `ssl.SSLError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_PROTOCOLS)
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)  # OpenSSL reads files only, and this is for no disk
    try:
        os.write(descriptor, pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context


def client_context() -> ssl.SSLContext:
    """For servers, by the authorities of this system (`SSL_CERT_FILE`, `SSL_CERT_DIR`)."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(_PROTOCOLS)
    return context


async def leave(sock: socket.socket, last: bytes = b"") -> None:
    """Sends that, and ends the connection so that it arrives: a broken connection takes back what was not read."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LEAVING):
            await loop.sock_sendall(sock, last)
            sock.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(sock, _READ):
                pass


class PlainStream:
    """Without TLS. `already`: what was read before."""

    def __init__(self, sock: socket.socket, already: bytes = b"") -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._already = already
        self.sent = self.received = 0

    async def receive(self) -> bytes:
        """What there is; empty at the end."""
        data, self._already = self._already, b""
        data = data or await self._loop.sock_recv(self._sock, _READ)
        self.received += len(data)
        return data

    async def send(self, data: bytes) -> None:
        """All of it."""
        self.sent += len(data)
        await self._loop.sock_sendall(self._sock, data)

    async def end(self) -> None:
        """Says that nothing more comes, and lets what was sent arrive."""
        await leave(self._sock)


class TlsStream:
    """With TLS. Reading and writing at the same time is all right, two of one kind is not."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, name: str | None = None, already: bytes = b""
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._in.write(already)
        self._tls = context.wrap_bio(self._in, self._out, server_side=name is None, server_hostname=name)
        self._sending = asyncio.Lock()
        self.sent = self.received = 0

    async def handshake(self) -> None:
        """Raises `ssl.SSLError`, `OSError`."""
        try:
            await self._step(lambda: self._tls.do_handshake() or b"")
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                await self._flush()  # the alert
            raise

    async def receive(self) -> bytes:
        """What there is; empty at the end."""
        data = await self._step(lambda: self._tls.read(_READ))
        self.received += len(data)
        return data

    async def send(self, data: bytes) -> None:
        """All of it."""
        self.sent += len(data)
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        await self._flush()

    async def end(self) -> None:
        """Says that nothing more comes, and lets what was sent arrive."""
        with contextlib.suppress(ssl.SSLError, OSError):
            self._tls.unwrap()
        await leave(self._sock, self._out.read())

    async def _step(self, action: Callable[[], bytes]) -> bytes:
        while True:
            try:
                done = action()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._loop.sock_recv(self._sock, _READ)
                if not data:
                    raise ConnectionError("the connection ended within TLS") from None
                self._in.write(data)
                continue
            except ssl.SSLZeroReturnError:
                return b""
            await self._flush()
            return done

    async def _flush(self) -> None:
        async with self._sending:
            while data := self._out.read():
                await self._loop.sock_sendall(self._sock, data)


Stream = PlainStream | TlsStream
