"""Connections to addresses that passed, and to no other, with TLS where it is wanted. They carry bytes of any protocol.

TLS proves the name that was checked, never the address. No proxy of the environment is used: it would resolve the name again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from ..errors import HttpFetchError
from .connecting import connect_async, remaining, tcp_socket, unreachable
from .evaluator import Vetted

__all__ = ("READ_SIZE", "AsyncStream", "BlockingStream", "connect_async", "dial", "dial_async")

READ_SIZE: Final = 64 * 1024


class BlockingStream:
    """A connection whose every operation ends at one deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._socket = connection
        self._deadline = deadline

    def send(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            self._limit()
            view = view[self._socket.send(view) :]

    def receive(self) -> bytes:
        """What there is, waiting for at least a byte; empty at the end."""
        self._limit()
        return self._socket.recv(READ_SIZE)

    def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Speak TLS from here on, with whoever proves to be `name`."""
        self._limit()
        # A time limit of a socket is one of the whole handshake, and of the whole of each `send` and `recv` above TLS.
        self._socket = context.wrap_socket(self._socket, server_hostname=name)

    def close(self) -> None:
        """End it at once."""
        self._socket.close()

    def _limit(self) -> None:
        self._socket.settimeout(remaining(self._deadline))


def dial(vetted: Vetted, deadline: float, context: ssl.SSLContext | None = None) -> BlockingStream:
    """Connect to the first of the addresses that answers; with `context`, speak TLS.

    Raises `HttpFetchError` if none does, and `TimeoutError` at `deadline` (`time.monotonic`).
    """
    stream = BlockingStream(_connected(vetted, deadline), deadline)
    try:
        if context is not None:
            stream.secure(context, vetted.destination.host)
    except ssl.SSLError as error:
        stream.close()
        raise tls_failure(vetted, error) from None
    except BaseException:
        stream.close()
        raise
    return stream


def _connected(vetted: Vetted, deadline: float) -> socket.socket:
    for index, address in enumerate(vetted.addresses):
        share = remaining(deadline) / (
            len(vetted.addresses) - index
        )  # one that does not answer leaves time for the next
        connection = tcp_socket(address)
        try:
            connection.settimeout(share)
            connection.connect((address, vetted.destination.port))
        except OSError:
            connection.close()
            continue
        except BaseException:
            connection.close()
            raise
        return connection
    raise unreachable(vetted, deadline)


def tls_failure(vetted: Vetted, error: ssl.SSLError) -> HttpFetchError:
    """What to say of TLS that failed: the certificate's fault by its code, nothing that the server wrote."""
    host = vetted.destination.host
    if isinstance(error, ssl.SSLCertVerificationError):
        return HttpFetchError(f"the server's certificate is not valid for {host} ({error.verify_code})")
    return HttpFetchError(f"{host} does not speak TLS as it should")


class AsyncStream:
    """The same on asyncio. Whoever awaits it has the clock."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """What there is, waiting for at least a byte; empty at the end."""
        return await self._reader.read(READ_SIZE)

    async def close(self) -> None:
        """End it at once."""
        self._writer.transport.abort()
        with contextlib.suppress(Exception):
            await self._writer.wait_closed()


async def dial_async(vetted: Vetted, deadline: float, context: ssl.SSLContext | None = None) -> AsyncStream:
    """As `dial`. Must run under the deadline's `asyncio.timeout`, which ends TLS too."""
    connection = await connect_async(vetted, deadline)
    name = vetted.destination.host if context is not None else None
    try:
        reader, writer = await asyncio.open_connection(sock=connection, ssl=context, server_hostname=name)
    except ssl.SSLError as error:
        connection.close()
        raise tls_failure(vetted, error) from None
    except BaseException:
        connection.close()
        raise
    return AsyncStream(reader, writer)
