"""Bytes from a client to the agent and back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

from ..wire import Ask

__all__ = ("Relay",)

_CHUNK: Final = 256 * 1024
_KIND: Final = 4
"""Where the kind of a request is (`native/box/PROTOCOL.md`): behind its length."""


class Relay:
    """One connection. `hold`: the agent's side may end without the client's noticing; until `close`."""

    def __init__(self, client: socket.socket, inner: socket.socket) -> None:
        self._client, self._inner = client, inner
        self._held = self._dials = False
        self._begun = b""
        self._closed = asyncio.Event()

    def hold(self) -> None:
        """The machine is about to be written down."""
        self._held = True

    def close(self) -> None:
        """The client is to come again."""
        self._closed.set()

    async def run(self, touched: Callable[[], None]) -> None:
        """Until one side ends. `touched` is called whenever something passed."""
        ways: list[asyncio.Task[Any]] = [
            asyncio.ensure_future(self._pass(self._client, self._inner, touched)),
            asyncio.ensure_future(self._pass(self._inner, self._client, touched)),
        ]
        closed: asyncio.Task[Any] = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait([*ways, closed], return_when=asyncio.FIRST_COMPLETED)
            if ways[1].done() and not closed.done():
                # The agent has said all it has to say. If that is because of a pause, the client waits with us, unless it has a
                # connection to a port of the machine: that is over.
                if self._held and not self._dials and not ways[0].done():
                    await asyncio.wait([closed, ways[0]], return_when=asyncio.FIRST_COMPLETED)
            elif ways[0].done() and not closed.done():
                with contextlib.suppress(OSError):
                    self._inner.shutdown(socket.SHUT_WR)
                await asyncio.wait([ways[1], closed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in (*ways, closed):
                way.cancel()
            await asyncio.gather(*ways, closed, return_exceptions=True)
            self._inner.close()

    async def _pass(self, source: socket.socket, target: socket.socket, touched: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, _CHUNK):
                touched()
                if source is self._client and len(self._begun) <= _KIND:
                    self._begun += data[: _KIND + 1]
                    self._dials = self._begun[_KIND : _KIND + 1] == bytes([Ask.DIAL])
                await loop.sock_sendall(target, data)
